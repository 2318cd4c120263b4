import gzip

import pytest

from quintain import errors
from quintain.nlp.data.pairs import parallel_text


@pytest.fixture
def write(tmp_path):
    def call(name, data):
        path = tmp_path / name
        path.write_bytes(data.encode() if isinstance(data, str) else data)
        return str(path)

    return call


def test_tsv_files_are_read_in_order(write):
    paths = [write("a.tsv", "one\teins\n"), write("b.tsv", "two\tzwei\nthree\tdrei")]

    assert parallel_text.read_tsv(paths) == [("one", "eins"), ("two", "zwei"), ("three", "drei")]


def test_compressed_files_are_read_like_plain_ones(write):
    path = write("a.tsv.gz", gzip.compress(b"one\teins\n"))

    assert parallel_text.read_tsv([path]) == [("one", "eins")]


def test_only_tabs_and_line_feeds_part_sentences(write):
    path = write("a.tsv", "a\u2028b\tä ö\n two \tzw\u0065\u0308i\n")

    assert parallel_text.read_tsv([path]) == [("a\u2028b", "ä ö"), (" two ", "zw\u0065\u0308i")]


def test_byte_order_mark_and_windows_line_ends_are_accepted(write):
    path = write("a.tsv", "\ufeffone\teins\r\ntwo\tzwei\r\n")

    assert parallel_text.read_tsv([path]) == [("one", "eins"), ("two", "zwei")]


def test_aligned_files_are_read_line_by_line(write):
    english, german = write("a.en", "one\ntwo\n"), write("a.de", "eins\nzwei")

    assert parallel_text.read_aligned([english], [german]) == [("one", "eins"), ("two", "zwei")]


@pytest.mark.parametrize(
    ("line", "num_tabs"), [("no tab here", 0), ("too\tmany\ttabs", 2), ("x" * 100, 0)]
)
def test_a_line_without_exactly_one_tab_is_named_and_shown(write, line, num_tabs):
    path = write("a.tsv", f"one\teins\n{line}\n")

    with pytest.raises(errors.DataError) as caught:
        parallel_text.read_tsv([path])

    message = str(caught.value)
    assert message.startswith(f"{path}:2: got {num_tabs} tabs, expected exactly one")
    assert repr(line)[:50] in message
    assert len(message) < len(path) + 200


def test_a_line_that_is_not_utf8_is_named(write):
    path = write("a.tsv", b"one\teins\ntwo\tzw\xe4i\n")

    with pytest.raises(errors.DataError, match=r"a\.tsv:2: byte 0xe4 is not UTF-8. Convert"):
        parallel_text.read_tsv([path])


@pytest.mark.parametrize("data", ["", "\n\n", "\ufeff"])
def test_an_empty_file_is_an_error(write, data):
    with pytest.raises(errors.DataError, match=r"a\.tsv: no sentence pairs, the file is empty"):
        parallel_text.read_tsv([write("a.tsv", data)])


def test_pairs_with_an_empty_side_are_left_out_with_one_warning(write, caplog):
    path = write("a.tsv", "one\teins\n\tzwei\nthree\t \n\nfour\tvier\n")

    assert parallel_text.read_tsv([path]) == [("one", "eins"), ("four", "vier")]
    assert [record.getMessage() for record in caplog.records] == [
        f"{path}: left out 2 of 4 pairs because one side is empty."
    ]


def test_evaluation_keeps_pairs_with_an_empty_side(write, caplog):
    english, german = write("a.en", "one\n\nthree\n"), write("a.de", "eins\nzwei\n\n")

    pairs = parallel_text.read_aligned([english], [german], keep_empty=True)

    assert pairs == [("one", "eins"), ("", "zwei"), ("three", "")]
    assert not caplog.records


def test_a_file_of_pairs_with_an_empty_side_is_an_error(write):
    with pytest.raises(errors.DataError, match="all 2 pairs have nothing on one side"):
        parallel_text.read_tsv([write("a.tsv", "one\t\ntwo\t\n")])


def test_files_of_different_length_are_an_error(write):
    english, german = write("a.en", "one\ntwo\n"), write("a.de", "eins\n")

    with pytest.raises(errors.DataError, match=r"a\.en has 2 lines, but .*a\.de has 1"):
        parallel_text.read_aligned([english], [german])


def test_different_numbers_of_files_are_an_error(write):
    english = write("a.en", "one\n")

    with pytest.raises(errors.DataError, match=r"input_path has 2 files .* target_path has 1"):
        parallel_text.read_aligned([english, english], [english])


def test_a_missing_file_is_an_error(tmp_path):
    with pytest.raises(errors.DataError, match=r"gone\.tsv: cannot be read"):
        parallel_text.read_tsv([str(tmp_path / "gone.tsv")])


@pytest.mark.parametrize(
    "data",
    [
        b"one\teins\n",
        gzip.compress(b"one\teins\n" * 9, mtime=0)[:-12],
        b"\x1f\x8b\x08\x00bad bytes",
    ],
)
def test_a_damaged_compressed_file_is_an_error(write, data):
    with pytest.raises(errors.DataError, match="is not a complete gzip file"):
        parallel_text.read_tsv([write("a.tsv.gz", data)])


def test_damaged_lines_are_left_out_where_the_config_says_so(write, caplog):
    path = write("a.tsv", b"\xef\xbb\xbfone\teins\r\nno tab\nbad \xff\tx\na\tb\tc\n\ntwo\tzwei\n")
    lines = "".join(f"{number} {number**7}\teins {number**9}\n" for number in range(500))
    torn = write("b.tsv.gz", gzip.compress(lines.encode())[:-900])

    assert parallel_text.read_tsv([path], skips_damaged=True) == [("one", "eins"), ("two", "zwei")]
    found = parallel_text.read_tsv([torn], skips_damaged=True)

    assert 0 < len(found) < 500
    assert ["\t".join(pair) for pair in found] == lines.splitlines()[: len(found)]
    for where in (f"{path}:2: ", f"{path}:3: ", f"{path}:4: ", f"the end of {torn}"):
        assert f"Left out: {where}" in caplog.text
