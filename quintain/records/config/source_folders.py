"""Walk of a directory of users' code, which prunes installed packages and caches."""

import itertools
import os
import pathlib
from collections.abc import Iterator
from typing import Final

TOOL_FOLDERS: Final = frozenset({".git", ".hg", "__pycache__"})
"""Names of directories that belong to tools, which nobody misses in a copy of the code."""

_PACKAGE_FOLDERS: Final = frozenset({"node_modules"})
_ENVIRONMENT_FILE: Final = "pyvenv.cfg"
"""Marks a virtual environment, whatever its name (PEP 405)."""


def is_pruned(folder: str | os.PathLike[str]) -> bool:
    """Returns whether a directory holds no code of the user's."""
    return os.path.basename(folder) in TOOL_FOLDERS | _PACKAGE_FOLDERS or os.path.exists(
        os.path.join(folder, _ENVIRONMENT_FILE)
    )


def walk(directory: str | os.PathLike[str]) -> Iterator[pathlib.Path]:
    """Returns the files of users' code, sorted in each directory; links to others not followed."""
    for folder, folders, files in os.walk(directory):
        folders[:] = sorted(name for name in folders if not is_pruned(os.path.join(folder, name)))
        yield from (pathlib.Path(folder, name) for name in sorted(files))


def find_sources(
    directory: str | os.PathLike[str], *, most: int | None = None
) -> Iterator[pathlib.Path]:
    """Returns the Python files of users' code.

    Args:
        directory: The directory.
        most: Files of any kind to look at, at most; None looks at all.
    """
    looked_at = itertools.islice(walk(directory), most)
    return (path for path in looked_at if path.suffix == ".py" and path.is_file())
