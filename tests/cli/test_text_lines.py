import io

import pytest

from quintain.cli import text_lines


def read(data):
    return list(text_lines.read_lines(io.BytesIO(data)))


def test_lines_are_numbered_and_end_as_on_any_system():
    lines = read("one\r\nzwei ü\n\nאבג 🙂".encode())

    assert [line.text for line in lines] == ["one", "zwei ü", "", "אבג 🙂"]
    assert [line.number for line in lines] == [1, 2, 3, 4]
    assert not any(line.problem for line in lines)


def test_a_line_that_is_not_utf_8_says_where():
    lines = read(b"good\nab\xffcd\ngood\n")

    assert [line.problem for line in lines] == ["", "not UTF-8 at byte 2", ""]
    assert [line.text for line in lines] == ["good", "", "good"]


@pytest.mark.parametrize("extra", [1, 2, 5_000_000])
def test_a_line_too_long_for_memory_is_told_and_the_next_is_read(extra):
    limit = text_lines.MAX_LINE_BYTES

    lines = read(b"x" * (limit + extra) + b"\nnext\n" + b"y" * limit + b"\n")

    assert [line.problem for line in lines] == ["longer than 1,000,000 bytes", "", ""]
    assert lines[1].text == "next"
    assert [line.number for line in lines] == [1, 2, 3]
    assert len(lines[2].text) == limit


def test_control_characters_do_not_end_a_line():
    (line,) = read("a\x00b\x0bc\u2028d\x1b[31m\n".encode())

    assert line.text == "a\x00b\x0bc\u2028d\x1b[31m"
