"""Static analysis of the names that the user's code uses."""

import ast
import pathlib
from collections.abc import Set

from quintain.records.config import source_folders


def find_used(path: pathlib.Path, names: Set[str]) -> set[str]:
    """Returns those of `names` that a file's code reads, calls or imports.

    What comments and texts say doesn't count, except in a file that can't be parsed: importing it
    says what is wrong with it.
    """
    source = path.read_bytes()
    mentioned = {name for name in names if name.encode() in source}
    if not mentioned:
        return mentioned  # most files, which are not parsed
    try:
        tree = ast.parse(source, str(path))
    except (SyntaxError, ValueError):
        return mentioned
    used: set[str] = set()
    for node in ast.walk(tree):
        match node:
            case ast.Name(id=name) | ast.Attribute(attr=name) | ast.alias(name=name):
                used.update(name.split("."))
            case ast.ImportFrom(module=str(name)):
                used.update(name.split("."))
    return mentioned & used


def find_used_below(
    directory: pathlib.Path, names: Set[str], *, most: int | None = None
) -> set[str]:
    """Returns those of `names` that the Python files of a directory use; see `find_used`.

    Args:
        directory: The directory; links to others are not followed.
        names: The names.
        most: Files of any kind to look at, at most; None looks at all.
    """
    files = source_folders.find_sources(directory, most=most)
    return {name for path in files for name in find_used(path, names)}
