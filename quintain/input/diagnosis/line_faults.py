"""Finds the line of a text file that an operation which reads fields could not take.

TensorFlow says what is wrong with a field, but neither in which file nor in which line.
"""

import csv
import gzip
import re
import time
import zlib
from collections.abc import Callable, Iterable
from typing import Any, Final

from quintain import errors
from quintain.files import file_io

_COUNT: Final = re.compile(r"Expect \d+ fields but have (?P<count>\d+) in record")
_MISSING: Final = re.compile(r"Field (?P<place>\d+) is required but missing in record")
_VALUE: Final = re.compile(
    r"(?:Field \d+ in record(?: \d+)? is not a valid \w+|could not correctly convert string): "
    r"(?P<value>.*?)(?: \[Op:[^\]]*\].*)?$",
    re.MULTILINE,
)
_SEPARATORS: Final = re.compile(r"[\t,;| ]")
_GZIP_MAGIC: Final = b"\x1f\x8b"

_Judge = Callable[[str], bool]


def is_about_a_line(message: str) -> bool:
    """Returns whether an error is of an operation that takes a line apart."""
    return any(pattern.search(message) for pattern in (_COUNT, _MISSING, _VALUE))


def find(message: str, paths: Iterable[str], delimiters: Iterable[str], deadline: float) -> str:
    """Returns the first line that an error may be about, as `FILE:LINE: TEXT`; empty if none is.

    Args:
        message: What TensorFlow said.
        paths: The files that were read.
        delimiters: What separates the fields; commas if there is none.
        deadline: When to stop looking, by `time.monotonic`.
    """
    judge = _build_judge(message, list(delimiters) or [","])
    for path in paths:
        for number, line in _read(path):
            if judge(line):
                return f"{path}:{number}: {errors.show(line)}"
            if time.monotonic() > deadline:
                return ""
    return ""


def _build_judge(message: str, delimiters: list[str]) -> _Judge:
    """Returns a function that says whether a line is one that the error is about."""
    if found := _COUNT.search(message):
        count = int(found["count"])
        return lambda line: any(len(_split(line, one)) == count for one in delimiters)
    if found := _MISSING.search(message):
        place = int(found["place"])
        return lambda line: any(_split(line, one)[place : place + 1] == [""] for one in delimiters)
    found = _VALUE.search(message)
    value = found["value"].strip() if found else ""

    def has_value(line: str) -> bool:
        parts = [_SEPARATORS.split(line), *(_split(line, one) for one in delimiters)]
        return any(part.strip() == value for fields in parts for part in fields)

    return has_value


def _split(line: str, delimiter: str) -> list[str]:
    """Returns the fields of a line; none if it is only a part of a record."""
    try:
        return next(csv.reader([line], delimiter=delimiter, strict=True), [])
    except csv.Error:
        return []


def _read(path: str) -> Iterable[tuple[int, str]]:
    """Yields the numbers and texts of the lines of a file, compressed with gzip or not."""
    with file_io.open(path, "rb") as file:
        is_gzip = file.read(len(_GZIP_MAGIC)) == _GZIP_MAGIC
        file.seek(0)
        lines: Any = gzip.GzipFile(fileobj=file) if is_gzip else file
        try:
            for number, line in enumerate(lines, start=1):
                yield number, line.decode("utf-8", "replace").rstrip("\r\n")
        except (EOFError, zlib.error, gzip.BadGzipFile):
            return  # Up to here it was no line of this file.
