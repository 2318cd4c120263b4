"""Reads the files of runs: never more than is needed, and never what is no plain file.

The records of steps (`training.jsonl`, `evaluations.jsonl`) grow while they are read, and are
replaced when a run is thrown back. Half a line at the end, or a damaged one, is left out.
"""

import contextlib
import dataclasses
import json
import math
import os
import pathlib
import stat
import zlib
from collections.abc import Iterator, Mapping
from typing import Any, BinaryIO, Final

MAX_ROWS: Final = 2000
"""Most records that are returned at once."""

_MAX_LINE_BYTES: Final = 2**20
_WHOLE_BYTES: Final = 4 * 2**20
"""Longest part of a file that is read as a whole; of longer ones some lines are."""

_CHECKED_BYTES: Final = 2**20
_TAIL_BYTES: Final = 2**16
_MAX_STEP: Final = 2**53
_MAX_NAMES: Final = 500


@dataclasses.dataclass(frozen=True)
class Lines:
    """Records that were read."""

    entries: list[dict[str, Any]]
    """The records, in their order."""

    cursor: str
    """Where to go on."""

    is_reset: bool
    """Whether they begin at the start of the file, as it is not the one that was read before."""

    is_thinned: bool
    """Whether some were passed over."""


@contextlib.contextmanager
def open_plain(path: pathlib.Path) -> Iterator[BinaryIO | None]:
    """Gives a file; None if there is none, or it is a link or anything else that is no file."""
    try:
        # Without `O_NONBLOCK` a pipe of this name would wait for ever.
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:
        yield None
        return
    with open(descriptor, "rb") as file:
        yield file if stat.S_ISREG(os.fstat(descriptor).st_mode) else None


def read_text(path: pathlib.Path, max_bytes: int) -> tuple[str, bool] | None:
    """Returns the text of a file and whether it was cut; None if there is none."""
    with open_plain(path) as file:
        if file is None:
            return None
        data = file.read(max_bytes + 1)
    return data[:max_bytes].decode("utf-8", errors="replace"), len(data) > max_bytes


def read_json(path: pathlib.Path, max_bytes: int) -> dict[str, Any]:
    """Returns the mapping in a JSON file; an empty one if it can't be read."""
    found = read_text(path, max_bytes)
    try:
        content = None if found is None else json.loads(found[0])
    except (ValueError, RecursionError):
        return {}
    return content if isinstance(content, dict) else {}


def read_last(path: pathlib.Path) -> dict[str, Any] | None:
    """Returns the last record of a file, or None if there is none."""
    with open_plain(path) as file:
        if file is None:
            return None
        size = _find_size(file)
        for num_bytes in (_TAIL_BYTES, _MAX_LINE_BYTES):
            file.seek(max(size - num_bytes, 0))
            for line in reversed(file.read(num_bytes).split(b"\n")[:-1]):
                if entry := _parse(line):
                    return entry
    return None


def read_new(path: pathlib.Path, cursor: str) -> Lines:
    """Returns the records that were added since a cursor was given.

    Args:
        path: The file.
        cursor: What was returned before; empty, or of a file that was replaced, begins anew.
    """
    with open_plain(path) as file:
        if file is None:
            return Lines([], "", is_reset=bool(cursor), is_thinned=False)
        start = _find_start(file, cursor)
        is_reset = start == 0
        end = _find_end(file, start)
        if end - start <= _WHOLE_BYTES:
            file.seek(start)
            parsed = [_parse(line) for line in file.read(end - start).splitlines()]
            found = [entry for entry in parsed if entry is not None]
            entries = _thin(found)
            is_thinned = len(entries) < len(found)
        else:
            entries, is_thinned = _sample(file, start, end), True
        return Lines(entries, _make_cursor(file, end), is_reset=is_reset, is_thinned=is_thinned)


def flatten(metrics: Mapping[str, Any]) -> dict[str, float]:
    """Returns the numbers among nested metrics, `b` below `a` as `a|b`.

    Training writes null for numbers that JSON can't express.

    Example:
        >>> flatten({"loss": 0.5, "task": {"bleu": None, "name": "x"}})
        {'loss': 0.5, 'task|bleu': nan}
    """
    flat: dict[str, float] = {}
    waiting = [("", metrics)]
    while waiting and len(flat) < _MAX_NAMES:
        prefix, part = waiting.pop()
        for name, value in part.items():
            if isinstance(value, Mapping):
                waiting.append((f"{prefix}{name}|", value))
            elif value is None or is_number(value):
                flat[f"{prefix}{name}"] = to_float(value)
    return flat


def to_float(value: float | None) -> float:
    """Returns a number as a float: NaN for None, infinite where it is too large."""
    try:
        return math.nan if value is None else float(value)
    except OverflowError:
        return math.inf


def is_number(value: object) -> bool:
    """True if a value is a number; a truth value is none."""
    return isinstance(value, int | float) and not isinstance(value, bool)


def _find_size(file: BinaryIO) -> int:
    return os.fstat(file.fileno()).st_size


def _find_start(file: BinaryIO, cursor: str) -> int:
    """Returns where a cursor points to; 0 if it is not one of this file."""
    text = cursor.partition("-")[0]
    offset = int(text) if text.isascii() and text.isdecimal() and len(text) < 16 else 0
    is_same = offset <= _find_size(file) and _make_cursor(file, offset) == cursor
    return offset if is_same else 0


def _make_cursor(file: BinaryIO, offset: int) -> str:
    """Returns a place in a file, with a mark of what is before it."""
    start = 0 if offset <= _CHECKED_BYTES else offset - _TAIL_BYTES
    file.seek(start)
    return f"{offset}-{zlib.crc32(file.read(offset - start)):08x}"


def _find_end(file: BinaryIO, start: int) -> int:
    """Returns the end of the last whole line; `start` if there is none after it."""
    end = _find_size(file)
    while end > start:
        begin = max(end - _TAIL_BYTES, start)
        file.seek(begin)
        at = file.read(end - begin).rfind(b"\n")
        if at >= 0:
            return begin + at + 1
        end = begin
    return start


def _sample(file: BinaryIO, start: int, end: int) -> list[dict[str, Any]]:
    """Returns records spread evenly over a part of a file, its last one among them."""
    found: dict[int, dict[str, Any]] = {}
    for place in (start + i * (end - start) // MAX_ROWS for i in range(MAX_ROWS)):
        _seek_line(file, start, place)
        begin = file.tell()
        entry = _parse(file.readline(_MAX_LINE_BYTES)) if begin < end else None
        if entry is not None:
            found[begin] = entry
    _seek_line(file, start, end - _TAIL_BYTES)
    for line in file.read(max(end - file.tell(), 0)).splitlines():
        entry = _parse(line)
        if entry is not None:
            found[end] = entry
    return _thin([found[begin] for begin in sorted(found)])


def _seek_line(file: BinaryIO, start: int, place: int) -> None:
    """Goes to the first line that begins at a place or after it."""
    file.seek(place)
    if place > start:
        file.readline(_MAX_LINE_BYTES)


def _thin(entries: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Returns at most `MAX_ROWS` of some records, spread evenly, first and last among them."""
    last = len(entries) - 1
    if last < MAX_ROWS:
        return entries
    return [entries[i * last // (MAX_ROWS - 1)] for i in range(MAX_ROWS)]


def _parse(line: bytes) -> dict[str, Any] | None:
    try:
        entry = json.loads(line)
    except (ValueError, RecursionError):
        return None
    if not isinstance(entry, dict) or not isinstance(entry.get("metrics"), dict):
        return None
    step = entry.get("step")
    is_step = isinstance(step, int) and not isinstance(step, bool) and 0 <= step < _MAX_STEP
    return entry if is_step else None
