"""Copies of users' model directories, so that later changes do not reach a running experiment."""

import fnmatch
import os
import pathlib
import re
import shutil
from collections.abc import Sequence
from typing import Final

from quintain import errors

IGNORE_FILES: Final = (".quintainignore", ".detignore", ".pedlignore")
"""Files that say what is left out, in the syntax of `.gitignore`; the first one found counts."""

MAX_BYTES: Final = 95 * 2**20
"""Largest size of a model directory."""

_ALWAYS_IGNORED: Final = ("__pycache__/", ".git/")


class IgnoreRules:
    """Patterns in the syntax of `.gitignore`; the last one that matches decides."""

    def __init__(self, lines: Sequence[str]) -> None:
        """Reads the patterns."""
        self._rules: list[tuple[re.Pattern[str], bool, bool]] = []
        for line in lines:
            text = line.rstrip("\n")
            text = text if text.endswith("\\ ") else text.rstrip()
            if not text or text.startswith("#"):
                continue
            is_kept = text.startswith("!")
            text = text.removeprefix("!")
            needs_directory = text.endswith("/")
            text = text.rstrip("/")
            is_anchored = "/" in text
            pattern = _to_regex(text.lstrip("/"), is_anchored=is_anchored)
            self._rules.append((re.compile(pattern), is_kept, needs_directory))

    def is_ignored(self, path: str, *, is_directory: bool) -> bool:
        """Returns whether a path is left out.

        Args:
            path: Relative to the model directory, with `/`.
            is_directory: Whether it is a directory.
        """
        ignored = False
        for pattern, is_kept, needs_directory in self._rules:
            if (is_directory or not needs_directory) and pattern.fullmatch(path):
                ignored = not is_kept
        return ignored


def copy_model_dir(source: pathlib.Path, target: pathlib.Path) -> int:
    """Copies a model directory, without what its ignore file names.

    Args:
        source: The user's directory.
        target: The copy, which must not exist.

    Returns:
        Bytes that were copied.

    Raises:
        ConfigError: If the directory is missing or too large.
    """
    if not source.is_dir():
        raise errors.ConfigError(f"model_dir: {str(source)!r} is not a directory.")
    files = list_files(source)
    sizes = {path: (source / path).stat().st_size for path in files}
    total = sum(sizes.values())
    if total > MAX_BYTES:
        largest = sorted(sizes, key=lambda path: -sizes[path])[:3]
        raise errors.ConfigError(
            f"model_dir: {str(source)!r} has {total / 2**20:.1f} MiB, expected at most "
            f"{MAX_BYTES // 2**20} MiB. Name what is not needed in {IGNORE_FILES[0]}; the largest "
            f"files are {', '.join(largest)}."
        )
    for path in files:
        copy = target / path
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(source / path, copy)
    target.mkdir(parents=True, exist_ok=True)
    return total


def list_files(source: pathlib.Path) -> list[str]:
    """Returns the files of a model directory that are not left out, sorted."""
    ignore_file = next((source / name for name in IGNORE_FILES if (source / name).exists()), None)
    lines = ignore_file.read_text(encoding="utf-8").splitlines() if ignore_file else []
    rules = IgnoreRules([*_ALWAYS_IGNORED, *lines])
    found: list[str] = []
    for directory, names, files in os.walk(source, followlinks=True):
        base = pathlib.Path(directory).relative_to(source)
        names[:] = [
            name
            for name in names
            if not rules.is_ignored((base / name).as_posix(), is_directory=True)
        ]
        for name in files:
            path = (base / name).as_posix()
            if (source / path).is_file() and not rules.is_ignored(path, is_directory=False):
                found.append(path)
    return sorted(found)


def _to_regex(pattern: str, *, is_anchored: bool) -> str:
    """Returns a regular expression for a pattern; without a slash it matches at any depth."""
    parts: list[str] = []
    segments = pattern.split("/")
    for index, segment in enumerate(segments):
        is_last = index == len(segments) - 1
        if segment == "**":
            parts.append(".*" if is_last else "(?:.*/)?")
            continue
        text = fnmatch.translate(segment).removeprefix("(?s:").removesuffix(r")\Z")
        text = text.removesuffix(r")\z").replace(".*", "[^/]*")
        text = re.sub(r"(?<!\\)\.(?!\*)", "[^/]", text)
        parts.append(text if is_last else text + "/")
    return ("" if is_anchored else "(?:.*/)?") + "".join(parts)
