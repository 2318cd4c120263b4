"""Which names a file of the user's code uses, seen without importing it."""

import ast
import pathlib


def find_used(path: pathlib.Path, names: set[str]) -> set[str]:
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
    return mentioned & used
