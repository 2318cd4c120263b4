import gzip

import pytest

from quintain.input import line_files
from quintain.nlp.data import labelled_files
from quintain.nlp.data.pairs import parallel_text

ODD = ["fine\tgut", "a\rb\tc", "a\0\tb", "c\rd\te", "w " * 120_000 + "\tx"]
PLACES = {"carriage return": (2, 2), "NUL": (3, 1), "50,000 characters": (5, 1)}


@pytest.fixture(autouse=True)
def _nothing_was_said(monkeypatch):
    monkeypatch.setattr(line_files, "_told", set())


def check_said(caplog, path, first=0):
    assert len(caplog.messages) == len(PLACES)
    for message, (kind, (number, count)) in zip(caplog.messages, PLACES.items(), strict=True):
        assert message.startswith(f"{path}:{number + first}: the first of {count} lines that have")
        assert kind in message


def test_odd_lines_of_pairs_are_counted_and_said_once(tmp_path, caplog):
    path = tmp_path / "a.tsv.gz"
    path.write_bytes(gzip.compress("\r\n".join(ODD).encode()))

    pairs = parallel_text.read_tsv([str(path)])
    again = parallel_text.read_tsv([str(path)], skips_damaged=True)

    assert pairs == again
    assert ["\t".join(pair) for pair in pairs] == ODD
    check_said(caplog, path)


def test_odd_lines_of_two_files_are_said_of_that_which_has_them(tmp_path, caplog):
    source, target = tmp_path / "a.en", tmp_path / "a.de"
    source.write_bytes("\n".join(ODD).encode())
    target.write_text("a\n" * len(ODD))

    parallel_text.read_aligned([str(source)], [str(target)])

    check_said(caplog, source)


def test_odd_lines_of_labelled_files_are_counted(tmp_path, caplog):
    path = tmp_path / "a.tsv"
    path.write_bytes("\n".join(["text\tlabel", *ODD]).encode())
    columns = labelled_files.find_columns([str(path)], ["text", "label"], None)

    labelled_files.check_tsv([str(path)], columns, None, labelled_files.LabelRange())

    check_said(caplog, path, first=1)


@pytest.mark.parametrize("name", ["dev.json", "dev.jsonl.gz"])
def test_a_long_line_of_json_is_not_odd(tmp_path, caplog, name):
    path = tmp_path / name
    line = b'["' + b"a" * (line_files.MAX_CHARACTERS + 1) + b'"]\n'
    path.write_bytes(gzip.compress(line) if name.endswith(".gz") else line)

    assert len(list(line_files.read(str(path)))) == 1
    assert not caplog.messages
