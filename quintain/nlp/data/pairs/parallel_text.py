"""Reads sentence pairs from text files, and says exactly where a file is wrong.

Two formats, each plain or compressed with gzip (a name ending in `.gz`): a TSV file with one
`source<TAB>target` pair a line and no header, and two files whose lines belong together. Text is
UTF-8; a byte-order mark and Windows line ends are accepted; nothing is normalised.
"""

import codecs
import contextlib
import gzip
import io
import logging
import zlib
from collections.abc import Iterator, Sequence

from quintain import errors
from quintain.files import file_io
from quintain.nlp.data import odd_lines

Pair = tuple[str, str]

_SHOWN_CHARACTERS = 60

_logger = logging.getLogger(__name__)


def read_tsv(
    paths: Sequence[str], *, keep_empty: bool = False, skips_damaged: bool = False
) -> list[Pair]:
    """Reads `source<TAB>target` lines.

    Args:
        paths: Files, read in this order.
        keep_empty: Whether a pair with nothing on one side is kept, as evaluation needs it. Blank
            lines are never pairs.
        skips_damaged: Whether lines that are no pair or not UTF-8, and what a torn gzip file lacks,
            are left out with a warning.

    Raises:
        DataError: If a file cannot be read, is not UTF-8, has a line without exactly one tab, or
            holds no pair.
    """
    pairs: list[Pair] = []
    for path in paths:
        rows = []
        lines = _read_whole_lines(path) if skips_damaged else enumerate(_read_lines(path), start=1)
        for number, line in odd_lines.watch(path, lines):
            if line and not line.isspace():
                try:
                    rows.append(_split_row(path, number, line))
                except errors.DataError as error:
                    if not skips_damaged:
                        raise
                    _logger.warning("Left out: %s", error)
        pairs += _checked(rows, path, keep_empty)
    return pairs


def _split_row(path: str, number: int, line: str) -> Pair:
    source, tab, target = line.partition("\t")
    if not tab or "\t" in target:
        raise errors.DataError(
            f"{path}:{number}: got {line.count(chr(9))} tabs, expected exactly one, between source "
            f"and target. Fix or remove the line: {_shorten(line)}"
        )
    return source, target


def read_aligned(
    source_paths: Sequence[str], target_paths: Sequence[str], *, keep_empty: bool = False
) -> list[Pair]:
    """Reads pairs of files in which line n of one translates line n of the other.

    Args:
        source_paths: Files in the source language.
        target_paths: As many files in the target language, in the same order.
        keep_empty: Whether a pair with nothing on one side is kept, as evaluation needs it.

    Raises:
        DataError: If a file cannot be read or is not UTF-8, if the numbers of files or of lines
            differ, or if two files hold no pair.
    """
    if len(source_paths) != len(target_paths):
        raise errors.DataError(
            f"input_path has {len(source_paths)} files ({', '.join(source_paths)}), but "
            f"target_path has {len(target_paths)} ({', '.join(target_paths)}). Give one target "
            "file for each source file."
        )
    pairs: list[Pair] = []
    for source_path, target_path in zip(source_paths, target_paths, strict=True):
        sources, targets = (
            [line for _, line in odd_lines.watch(path, enumerate(_read_lines(path), start=1))]
            for path in (source_path, target_path)
        )
        if len(sources) != len(targets):
            raise errors.DataError(
                f"{source_path} has {len(sources)} lines, but {target_path} has {len(targets)}. "
                "Line n of one must translate line n of the other; make both as long."
            )
        rows = zip(sources, targets, strict=True)
        pairs += _checked(list(rows), f"{source_path} and {target_path}", keep_empty)
    return pairs


def _checked(rows: list[Pair], where: str, keep_empty: bool) -> list[Pair]:
    """Returns the pairs to use of a file's rows; warns once of those that are left out."""
    if not rows:
        raise errors.DataError(f"{where}: no sentence pairs, the file is empty. Check the path.")
    if keep_empty:
        return rows
    kept = [pair for pair in rows if pair[0].strip() and pair[1].strip()]
    if not kept:
        raise errors.DataError(
            f"{where}: all {len(rows)} pairs have nothing on one side. Check the files."
        )
    if len(kept) < len(rows):
        _logger.warning(
            "%s: left out %d of %d pairs because one side is empty.",
            where, len(rows) - len(kept), len(rows),
        )  # fmt: skip
    return kept


def _read_lines(path: str) -> list[str]:
    """Returns a file's lines without their ends. Only line feeds end a line."""
    data = _read_bytes(path)
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        number = data.count(b"\n", 0, error.start) + 1
        line = data.split(b"\n")[number - 1].decode("utf-8", errors="backslashreplace")
        raise errors.DataError(
            f"{path}:{number}: byte {data[error.start]:#04x} is not UTF-8. Convert the file to "
            f"UTF-8, or fix or remove the line: {_shorten(line)}"
        ) from error
    lines = text.replace("\r\n", "\n").split("\n")
    if not lines[-1]:
        lines.pop()
    return lines


def _read_whole_lines(path: str) -> Iterator[tuple[int, str]]:
    """Yields the numbers and lines that can be read; warns of those that can't."""
    data = _read_bytes(path, skips_damaged=True).removeprefix(codecs.BOM_UTF8)
    for number, line in enumerate(data.split(b"\n"), start=1):
        try:
            yield number, line.removesuffix(b"\r").decode("utf-8")
        except UnicodeDecodeError as error:
            _logger.warning("Left out: %s:%d: it is not UTF-8 (%s).", path, number, error.reason)


def _read_bytes(path: str, *, skips_damaged: bool = False) -> bytes:
    try:
        data = file_io.read_bytes(path)
    except OSError as error:
        raise errors.DataError(f"{path}: cannot be read ({error.strerror}).") from error
    if not path.endswith(".gz"):
        return data
    try:
        return gzip.decompress(data)
    except (OSError, EOFError, zlib.error) as error:
        whole = _decompress_start(data) if skips_damaged else b""
        if whole:
            _logger.warning("Left out: the end of %s (%s).", path, error)
            return whole
        raise errors.DataError(
            f"{path}: is not a complete gzip file ({error}). Copy it again, or drop `.gz` from the "
            "name of a plain file."
        ) from error


def _decompress_start(data: bytes) -> bytes:
    """Returns the whole lines before the place where a gzip file is torn."""
    found = b""
    file = gzip.GzipFile(fileobj=io.BytesIO(data))
    with contextlib.suppress(OSError, EOFError, zlib.error):
        while piece := file.read1():
            found += piece
    return found[: found.rfind(b"\n") + 1]


def _shorten(line: str) -> str:
    shown = line if len(line) <= _SHOWN_CHARACTERS else line[:_SHOWN_CHARACTERS] + "..."
    return repr(shown)
