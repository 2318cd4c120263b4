"""Sentence pairs in text files; errors name the file and the line.

Two formats, each plain or compressed with gzip (a name ending in `.gz`): a TSV file with one
`source<TAB>target` pair a line and no header, and two files whose lines belong together. Text is
UTF-8; a byte-order mark and Windows line ends are accepted; nothing is normalised.
"""

import logging
from collections.abc import Sequence

from quintain import errors
from quintain.input import line_files

Pair = tuple[str, str]

_logger = logging.getLogger(__name__)


def read_tsv(
    paths: Sequence[str], *, keep_empty: bool = False, skips_damaged: bool = False
) -> list[Pair]:
    """Reads `source<TAB>target` lines.

    Blank lines are never pairs; a pair with nothing on one side is kept for evaluation only.
    With `skips_damaged`, lines that are no pair or not UTF-8, and what a torn gzip file lacks, are
    left out with a warning.

    Raises:
        DataError: If a file cannot be read, is not UTF-8, has a line without exactly one tab, or
            holds no pair.
    """
    pairs: list[Pair] = []
    for path in paths:
        rows = []
        for number, line in line_files.read(path, skip=_warn if skips_damaged else None):
            if line and not line.isspace():
                try:
                    rows.append(_split_row(path, number, line))
                except errors.DataError as error:
                    if not skips_damaged:
                        raise
                    _warn(error)
        pairs += _checked(rows, path, keep_empty)
    return pairs


def _split_row(path: str, number: int, line: str) -> Pair:
    source, tab, target = line.partition("\t")
    if not tab or "\t" in target:
        raise errors.DataError(
            f"{path}:{number}: got {line.count(chr(9))} tabs, expected exactly one, between source "
            f"and target. Fix or remove the line: {line_files.shorten(line)!r}"
        )
    return source, target


def read_aligned(
    source_paths: Sequence[str], target_paths: Sequence[str], *, keep_empty: bool = False
) -> list[Pair]:
    """Reads pairs of files in which line n of one translates line n of the other.

    A pair with nothing on one side is kept for evaluation only.

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
            [line for _, line in line_files.read(path)] for path in (source_path, target_path)
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


def _warn(error: errors.DataError) -> None:
    _logger.warning("Left out: %s", error)
