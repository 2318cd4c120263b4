"""Counts of odd lines in text files: stray line ends, NUL characters, lines too long for a text."""

import collections
import logging
from collections.abc import Iterable, Iterator
from typing import Final

MAX_CHARACTERS: Final = 50_000
"""More than any sentence or review has; such a line is mostly a file whose line ends are lost."""

_CARRIAGE_RETURN: Final = (
    "have a carriage return that ends no line",
    "Only line feeds end lines: convert the file if those of another system are meant.",
)
_NUL: Final = (
    "have a NUL character",
    "Convert the file to UTF-8 if it is of another encoding, or remove them.",
)
_LONG: Final = (
    f"have more than {MAX_CHARACTERS:,} characters",
    "Training on pairs leaves them out, all else cuts them: check the line ends.",
)

_Line = tuple[int, str]

_logger = logging.getLogger(__name__)
_told: set[str] = set()
"""Warnings given in this process; files are read several times, as for their vocabulary."""


def watch(path: str, lines: Iterable[_Line]) -> Iterator[_Line]:
    """Yields lines as they are, and warns at the end of those that are odd.

    Args:
        path: The file, for messages.
        lines: Numbers and texts, without line ends.
    """
    counts: collections.Counter[tuple[str, str]] = collections.Counter()
    first: dict[tuple[str, str], int] = {}
    for number, line in lines:
        for kind in _find_kinds(line):
            counts[kind] += 1
            first.setdefault(kind, number)
        yield number, line
    for kind, count in counts.items():
        problem, advice = kind
        message = f"{path}:{first[kind]}: the first of {count:,} lines that {problem}. {advice}"
        if message not in _told:
            _told.add(message)
            _logger.warning("%s", message)


def _find_kinds(line: str) -> Iterator[tuple[str, str]]:
    if "\r" in line:
        yield _CARRIAGE_RETURN
    if "\0" in line:
        yield _NUL
    if len(line) > MAX_CHARACTERS:
        yield _LONG
