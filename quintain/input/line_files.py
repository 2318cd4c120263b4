"""Lines of text files in UTF-8, plain or compressed with gzip; errors name file and line."""

import codecs
import collections
import contextlib
import gzip
import logging
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Final

from quintain import errors
from quintain.files import file_io

_CHUNK_BYTES: Final = 2**24
_SHOWN_CHARACTERS: Final = 60
MAX_CHARACTERS: Final = 50_000
"""More than any sentence or review has; such a line is mostly a file whose line ends are lost. JSON
may have as many in a line as it wants."""

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

_logger = logging.getLogger(__name__)
_told: set[str] = set()
"""Warnings given in this process; files are read several times, as for their vocabulary."""


def read(
    path: str, *, skip: Callable[[errors.DataError], None] | None = None
) -> Iterator[tuple[int, str]]:
    """Yields the lines of a file with their numbers from 1, without their ends.

    Only line feeds end a line, with or without a carriage return before them. A byte-order mark is
    no part of the first line. Odd lines are counted in a warning at the end.

    Args:
        path: The file, compressed with gzip if its name ends in `.gz`.
        skip: Gets the error of a line that is not UTF-8, or of the end that a torn gzip file lacks;
            it is left out then. None raises the error.

    Raises:
        DataError: If the file can't be read, or a line is not UTF-8.
    """
    yield from _odd_counted(path, _read(path, skip))


def _read(path: str, skip: Callable[[errors.DataError], None] | None) -> Iterator[tuple[int, str]]:
    number = 0
    try:
        with _opening(path) as file:
            for number, line in enumerate(file, start=1):
                line = line.removeprefix(codecs.BOM_UTF8) if number == 1 else line
                line = line.removesuffix(b"\n").removesuffix(b"\r")
                try:
                    text = line.decode("utf-8")
                except UnicodeDecodeError as error:
                    _refuse(skip, _not_utf8(path, number, error))
                else:
                    yield number, text
    except _TornFileError as error:
        if not number or skip is None:
            raise
        skip(errors.DataError(f"the end of {error}"))


def check_utf8(paths: Sequence[str]) -> None:
    """Reads whole files of text, so that a line that is not UTF-8 is named before training.

    Raises:
        DataError: If a file can't be read, or a line is not UTF-8.
    """
    for path in paths:
        decoder, num_lines = codecs.getincrementaldecoder("utf-8")(), 0
        try:
            with _opening(path) as file:
                while data := file.read(_CHUNK_BYTES):
                    decoder.decode(data)
                    num_lines += data.count(b"\n")
            decoder.decode(b"", final=True)
        except UnicodeDecodeError as error:
            number = num_lines + error.object.count(b"\n", 0, error.start) + 1
            raise _not_utf8(path, number, error) from error


def shorten(text: str) -> str:
    """Returns the beginning of a text that is long, for messages."""
    return text if len(text) <= _SHOWN_CHARACTERS else text[:_SHOWN_CHARACTERS] + "..."


class _TornFileError(errors.DataError):
    """A gzip file that is damaged or not complete."""


def _refuse(skip: Callable[[errors.DataError], None] | None, error: errors.DataError) -> None:
    if skip is None:
        raise error
    skip(error)


def _not_utf8(path: str, number: int, error: UnicodeDecodeError) -> errors.DataError:
    return errors.DataError(
        f"{path}:{number}: byte {error.object[error.start]:#04x} is not UTF-8. Convert the file to "
        "UTF-8, or fix or remove the line."
    )


@contextlib.contextmanager
def _opening(path: str) -> Iterator[Any]:
    """Opens a file, compressed or not, and says so where it can't be read."""
    try:
        with file_io.open(path, "rb") as file:
            yield gzip.GzipFile(fileobj=file) if path.endswith(".gz") else file
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise _TornFileError(
            f"{path}: is not a complete gzip file ({error}). Copy it again, or drop `.gz` from the "
            "name of a plain file."
        ) from error
    except OSError as error:
        raise errors.DataError(f"{path}: cannot be read ({error.strerror}).") from error


def _odd_counted(path: str, lines: Iterable[tuple[int, str]]) -> Iterator[tuple[int, str]]:
    """Yields lines as they are, and warns at the end of those that are odd."""
    counts: collections.Counter[tuple[str, str]] = collections.Counter()
    first: dict[tuple[str, str], int] = {}
    is_json = path.removesuffix(".gz").endswith((".json", ".jsonl"))
    for number, line in lines:
        for kind in _find_kinds(line, is_json):
            counts[kind] += 1
            first.setdefault(kind, number)
        yield number, line
    for kind, count in counts.items():
        problem, advice = kind
        message = f"{path}:{first[kind]}: the first of {count:,} lines that {problem}. {advice}"
        if message not in _told:
            _told.add(message)
            _logger.warning("%s", message)


def _find_kinds(line: str, is_json: bool) -> Iterator[tuple[str, str]]:
    if "\r" in line:
        yield _CARRIAGE_RETURN
    if "\0" in line:
        yield _NUL
    if len(line) > MAX_CHARACTERS and not is_json:
        yield _LONG
