"""The translations that evaluations of a run have left, in `translations/step-N.tsv`."""

import os
import pathlib
import re
from typing import Final

from quintain import errors
from quintain.records.rows import training_run
from quintain.server.runs import run_lines

DIRECTORY: Final = "translations"
HEADER: Final = ("source", "reference", "hypothesis")

_FILE: Final = re.compile(r"step-(?P<step>\d{1,15})(\.\d{1,4})?\.tsv")
_ESCAPES: Final = {"\\t": "\t", "\\n": "\n", "\\r": "\r", "\\\\": "\\"}
_ESCAPE: Final = re.compile(r"\\[tnr\\]")
_MAX_FILES: Final = 1000
_MAX_BYTES: Final = 16 * 2**20
_MAX_SCORE_BYTES: Final = 2**16
_SHOWN_SCORES: Final = 200
"""Evaluations, the newest, whose scores are read for the list."""


def list_files(directory: pathlib.Path) -> list[training_run.SampleFile]:
    """Returns the evaluations of a run that have left translations, by step, without scores."""
    root = directory / DIRECTORY
    if root.is_symlink():
        return []
    found = _list_in(root, "")
    try:
        with os.scandir(root) as entries:
            tasks = sorted(entry.name for entry in entries if entry.is_dir(follow_symlinks=False))
    except OSError:
        tasks = []
    for task in tasks:
        found += _list_in(root / task, f"{task}/")
    return sorted(found, key=lambda file: (file.step, file.name))[-_MAX_FILES:]


def read(
    directory: pathlib.Path, name: str, *, contains: str, offset: int, limit: int
) -> training_run.RunSamples:
    """Returns some of the translations of one evaluation.

    Args:
        directory: Directory of the run.
        name: The evaluation, as `list_files` names it; the last one if empty.
        contains: Only those with this text in source, reference or hypothesis, in any case.
        offset: So many of them are passed over.
        limit: Most that are returned.

    Raises:
        NotFoundError: If there is no such evaluation.
    """
    files = list_files(directory)
    chosen = name or (files[-1].name if files else "")
    if chosen and all(file.name != chosen for file in files):
        raise errors.NotFoundError(
            f"file: got {name[:200]!r}, but the run has no translations of this name."
        )
    shown = [*files[:-_SHOWN_SCORES], *(_add_scores(directory, f) for f in files[-_SHOWN_SCORES:])]
    rows, is_cut = _read_rows(directory / DIRECTORY / f"{chosen}.tsv") if chosen else ([], False)
    if contains:
        wanted = contains.casefold()
        rows = [row for row in rows if any(wanted in text.casefold() for text in row)]
    return training_run.RunSamples(
        files=tuple(shown),
        name=chosen,
        num_rows=len(rows),
        is_cut=is_cut,
        rows=rows[offset : offset + limit],
    )


def _list_in(directory: pathlib.Path, prefix: str) -> list[training_run.SampleFile]:
    try:
        with os.scandir(directory) as entries:
            matches = [
                _FILE.fullmatch(entry.name)
                for entry in entries
                if entry.is_file(follow_symlinks=False)
            ]
    except OSError:
        return []
    return [
        training_run.SampleFile(f"{prefix}{match[0].removesuffix('.tsv')}", int(match["step"]), {})
        for match in matches
        if match is not None
    ]


def _add_scores(directory: pathlib.Path, file: training_run.SampleFile) -> training_run.SampleFile:
    path = directory / DIRECTORY / f"{file.name}.json"
    found = run_lines.read_json(path, _MAX_SCORE_BYTES)
    return training_run.SampleFile(file.name, file.step, found)


def _read_rows(path: pathlib.Path) -> tuple[list[tuple[str, str, str]], bool]:
    found = run_lines.read_text(path, _MAX_BYTES)
    if found is None:
        return [], False
    text, is_cut = found
    rows = [line.split("\t") for line in text.split("\n")[:-1]]
    if not rows or tuple(rows[0]) != HEADER:
        return [], is_cut
    return [
        (_unescape(row[0]), _unescape(row[1]), _unescape(row[2]))
        for row in rows[1:]
        if len(row) == len(HEADER)
    ], is_cut


def _unescape(text: str) -> str:
    return _ESCAPE.sub(lambda match: _ESCAPES[match[0]], text) if "\\" in text else text
