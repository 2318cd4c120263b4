"""Lines of a file of any size: read in order, the bad ones told from the good."""

import dataclasses
from collections.abc import Iterable, Iterator
from typing import BinaryIO, Final

MAX_LINE_BYTES: Final = 1_000_000
"""Longest line that is held in memory."""


@dataclasses.dataclass(frozen=True)
class Line:
    """A line of the input."""

    number: int
    """Counted from 1."""

    text: str
    """Its text; empty if it is bad."""

    problem: str = ""
    """Why it can't be used; empty if it can."""


def read_lines(file: BinaryIO) -> Iterator[Line]:
    """Yields the lines of a file, which should be UTF-8.

    Args:
        file: Read once, and never more than a line ahead.
    """
    number = 0
    while data := file.readline(MAX_LINE_BYTES + 1):
        number += 1
        if len(data) > MAX_LINE_BYTES and not data.endswith(b"\n"):
            _skip_rest(file)
            yield Line(number, "", f"longer than {MAX_LINE_BYTES:,} bytes")
            continue
        try:
            yield Line(number, data.decode("utf-8").rstrip("\r\n"))
        except UnicodeDecodeError as error:
            yield Line(number, "", f"not UTF-8 at byte {error.start}")


def number(texts: Iterable[str]) -> Iterator[Line]:
    """Yields arguments of the command line as lines."""
    for place, text in enumerate(texts, start=1):
        try:
            # What was not UTF-8 came as halves of surrogate pairs.
            text.encode("utf-8")
        except UnicodeEncodeError as error:
            yield Line(place, "", f"not UTF-8 at character {error.start}")
        else:
            yield Line(place, text)


def _skip_rest(file: BinaryIO) -> None:
    while (data := file.readline(MAX_LINE_BYTES)) and not data.endswith(b"\n"):
        pass
