"""Python files with the imports of PEDL, Determined or the Model Garden, moved to Quintain's.

Only names of modules in import statements change, and `shape.as_list()`, because shapes of Keras 3
are tuples; all else stays as it is, to the byte.
"""

import ast
import dataclasses
import functools
import importlib
import importlib.util
import pathlib
import re
from collections.abc import Iterator
from typing import Final

from quintain import errors
from quintain.records.config import foreign_imports
from quintain.reference import reference_names

_FROM: Final = re.compile(r"from[\s\\]+([A-Za-z_][\w.]*)")
_NEWLINE: Final = re.compile(r"\r\n|\r|\n")
_AS_LIST: Final = re.compile(r"(\s*\.\s*get_shape\s*\(\s*\))?\s*\.\s*as_list\s*\(\s*\)\Z")
_QUOTED: Final = re.compile(rf"(?:{'|'.join(foreign_imports.ROOTS)})(?:\.[A-Za-z_]\w*)+")


@dataclasses.dataclass(frozen=True)
class Note:
    """Something that was not rewritten, or will not work."""

    line: int
    """Line in the file, from 1."""

    text: str
    """What is the matter."""


@dataclasses.dataclass(frozen=True)
class Migrated:
    """A file that was looked at."""

    text: str
    """What it is to say."""

    notes: tuple[Note, ...] = ()
    """What is left to do."""


@dataclasses.dataclass(frozen=True)
class _Edit:
    start: int
    end: int
    text: str


def migrate(source: str) -> Migrated:
    """Returns a Python file with Quintain's imports.

    Args:
        source: What the file says.
    """
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError) as error:
        line = getattr(error, "lineno", None) or 1
        return Migrated(source, (Note(line, f"this is no Python 3, and was left alone: {error}"),))
    edits: list[_Edit] = []
    notes: list[Note] = []
    starts = [0, *(found.end() for found in _NEWLINE.finditer(source))]
    aliases: dict[str, str] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                edits += _move_import(alias, source, starts)
                notes += _check_module(alias.name, alias.lineno)
                aliases |= _find_alias(alias)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            edits += _move_from(node, source, starts)
            notes += _check_from(node)
            aliases |= _find_aliases(node)
        elif isinstance(node, ast.Call):
            edits += _list_shape(node, source, starts)
        elif isinstance(node, ast.Constant) and _QUOTED.fullmatch(str(node.value)):
            notes.append(Note(node.lineno, f"the text {node.value!r} was not rewritten."))
    notes += _check_uses(tree, aliases)
    for edit in sorted(edits, key=lambda each: -each.start):
        source = source[: edit.start] + edit.text + source[edit.end :]
    return Migrated(source, tuple(sorted(set(notes), key=lambda note: (note.line, note.text))))


def _move_import(alias: ast.alias, source: str, starts: list[int]) -> Iterator[_Edit]:
    """Yields the change of `import a.b` or `import a.b as c`; the name it binds stays."""
    renamed = foreign_imports.rename(alias.name)
    if renamed is None:
        return
    start = _offset(source, starts, alias.lineno, alias.col_offset)
    root, dot, _ = alias.name.partition(".")
    if alias.asname is not None:
        yield _Edit(start, start + len(alias.name), renamed)
    elif not dot:
        yield _Edit(start, start + len(alias.name), f"{renamed} as {root}")
    else:
        both = f"{renamed}, {foreign_imports.ROOTS[root]} as {root}"
        yield _Edit(start, start + len(alias.name), both)


def _move_from(node: ast.ImportFrom, source: str, starts: list[int]) -> Iterator[_Edit]:
    renamed = foreign_imports.rename(node.module or "")
    start = _offset(source, starts, node.lineno, node.col_offset)
    found = _FROM.match(source, start)
    if renamed is not None and found is not None:
        yield _Edit(found.start(1), found.end(1), renamed)


def _list_shape(node: ast.Call, source: str, starts: list[int]) -> Iterator[_Edit]:
    """Yields the changes of `x.shape.as_list()` to `list(x.shape)`, the same for any tensor."""
    match node.func:
        case ast.Attribute(value=ast.Name(id=name) | ast.Attribute(attr=name)):
            is_shape = name.endswith("shape")
        case ast.Attribute(value=ast.Call(func=ast.Attribute(attr="get_shape"))):
            is_shape = True
        case _:
            return
    start = _offset(source, starts, node.lineno, node.col_offset)
    end = _offset(source, starts, node.end_lineno or 0, node.end_col_offset or 0)
    found = _AS_LIST.search(source, start, end)
    # Before Python 3.12, places inside of an f-string are not those in the file.
    if is_shape and found and ast.unparse(node) == _unparse(source[start:end]):
        yield _Edit(start, start, "list(")
        yield _Edit(found.start(), end, ".shape)" if found[1] else ")")


def _unparse(expression: str) -> str | None:
    try:
        return ast.unparse(ast.parse(f"({expression})"))
    except SyntaxError:
        return None


def _find_alias(alias: ast.alias) -> dict[str, str]:
    """Returns the module that a name of `import a.b` or `import a.b as c` is; none of others'."""
    name = alias.name if alias.asname else alias.name.partition(".")[0]
    module = _resolve(name)
    return {alias.asname or name: module} if module else {}


def _find_aliases(node: ast.ImportFrom) -> dict[str, str]:
    """Returns the modules that the names of `from module import names` may be."""
    found = {
        alias.asname or alias.name: _resolve(f"{node.module}.{alias.name}") for alias in node.names
    }
    return {name: module for name, module in found.items() if module and not _find_problem(module)}


def _resolve(module: str) -> str | None:
    """Returns the present name of a module of these packages or of TensorFlow."""
    is_tensorflow = module.partition(".")[0] == "tensorflow"
    return module if is_tensorflow else foreign_imports.rename(module)


def _check_module(module: str, line: int) -> Iterator[Note]:
    renamed = foreign_imports.rename(module)
    if renamed is not None and (problem := _find_problem(renamed)):
        yield Note(line, problem)


def _check_from(node: ast.ImportFrom) -> Iterator[Note]:
    """Yields what of `from module import names` is not there."""
    renamed = foreign_imports.rename(node.module or "")
    if renamed is None:
        return
    if problem := _find_problem(renamed):
        yield Note(node.lineno, problem)
        return
    for alias in node.names:
        problem = _find_missing(renamed, alias.name) or _find_gap(f"{renamed}.{alias.name}")
        if alias.name != "*" and problem is not None:
            yield Note(alias.lineno, problem)


def _check_uses(tree: ast.AST, aliases: dict[str, str]) -> Iterator[Note]:
    """Yields attributes of moved modules that are not there, such as `det.pytorch`."""
    rebound = {
        node.arg if isinstance(node, ast.arg) else node.id
        for node in ast.walk(tree)
        if isinstance(node, ast.arg)
        or (isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store))
    }
    aliases = {name: module for name, module in aliases.items() if name not in rebound}
    # Trials have the names of Keras 2 as well.
    is_trial = any(module.startswith("quintain.trials") for module in aliases.values())
    for node in ast.walk(tree):
        if not isinstance(node, ast.Attribute):
            continue
        path: list[str] = []
        owner: ast.expr = node
        while isinstance(owner, ast.Attribute):
            path.insert(0, owner.attr)
            owner = owner.value
        module = aliases.get(owner.id) if isinstance(owner, ast.Name) else None
        if module is None:
            continue
        problem = _find_missing(module, path[0]) if len(path) == 1 else None
        if problem is None and not is_trial:
            problem = _find_gap(".".join((module, *path)))
        if problem is not None:
            yield Note(node.lineno, problem)


@functools.cache
def _find_problem(module: str) -> str | None:
    """Returns why there is no such module of ours; None if there is, or it is another package's."""
    if not _is_ours(module):
        return None
    inner = module.partition(".")[2]
    refusal = reference_names.find_refusal(inner) if inner else None
    if refusal is not None:
        return refusal
    try:
        found = importlib.util.find_spec(module)
    except (ImportError, AttributeError, ValueError):
        found = None
    return None if found is not None else f"Quintain has no module {module}."


@functools.cache
def _find_missing(module: str, name: str) -> str | None:
    """Returns why a module of ours has no such name; None if it has, or is another package's."""
    if not _is_ours(module):
        return None
    refusal = reference_names.find_refusal(f"{module}.{name}".partition(".")[2])
    if refusal is not None:
        return refusal
    known = _list_names(module)
    if (
        name.startswith("__")
        or known is None
        or name in known
        or _find_problem(f"{module}.{name}") is None
    ):
        return None
    return f"Quintain's {module} has no {name!r}.{errors.suggest(name, known)}"


@functools.cache
def _find_gap(path: str) -> str | None:
    """Returns what of a path below `tensorflow.keras` is not in Keras 3; None if all of it is."""
    spec = importlib.util.find_spec("keras")
    root, _, inner = path.partition("tensorflow.keras.")
    if root or not inner or spec is None or spec.origin is None:
        return None
    folder, place = pathlib.Path(spec.origin).parent / "_tf_keras" / "keras", "tf.keras"
    for name in inner.split("."):
        known = set(_list_top_level(ast.parse((folder / "__init__.py").read_text("utf-8"))))
        folder /= name
        if not folder.is_dir():
            lacks = name not in known and not name.startswith("__")
            return f"Keras 3 has no {place}.{name}.{errors.suggest(name, known)}" if lacks else None
        place = f"{place}.{name}"
    return None


def _is_ours(module: str) -> bool:
    return module.partition(".")[0] == "quintain"


@functools.cache
def _list_names(module: str) -> frozenset[str] | None:
    """Returns what a module offers, without running it unless it is a package; None if unknown."""
    spec = importlib.util.find_spec(module)
    if spec is None or spec.loader is None:
        return None
    if spec.submodule_search_locations is not None:
        return frozenset(dir(importlib.import_module(module)))
    # Of a module that was imported already, it is the spec of its own name.
    source = spec.loader.get_source(spec.name) if hasattr(spec.loader, "get_source") else None
    if source is None:
        return None
    return frozenset(_list_top_level(ast.parse(source)))


def _list_top_level(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        match node:
            case ast.FunctionDef(name=name) | ast.ClassDef(name=name):
                yield name
            case ast.Name(id=name, ctx=ast.Store()):
                yield name
            case ast.Import(names=names) | ast.ImportFrom(names=names):
                yield from (each.asname or each.name for each in names)
            case ast.Constant(value=str(value)):
                yield value  # of a table of names that are imported when they are used


def _offset(source: str, starts: list[int], line: int, column: int) -> int:
    """Returns the place of a line and a column that counts UTF-8 bytes, as `ast` does."""
    start = starts[line - 1]
    rest = source[start : start + column]
    return start + len(rest.encode()[:column].decode(errors="ignore"))
