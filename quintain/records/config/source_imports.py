"""Static analysis of the installed libraries that the user's code imports."""

import ast
import contextlib
import functools
import importlib.machinery
import pathlib
import sys
from collections.abc import Iterator
from typing import Final

from quintain.records.config import source_folders

_OWN: Final = frozenset({"keras", "numpy", "quintain", "tensorflow"})
"""What every trial imports anyhow."""

_INSTALLED: Final = frozenset({"dist-packages", "site-packages"})
"""Names of the directories that installers write to, on all systems."""

imported_ahead: Final[set[str]] = set()
"""Modules that a process imported for the trials that are forked from it."""

_HARMLESS_PREFIXES: Final = ("KERAS_", "TF_")
"""Prefixes of variables that only Keras and TensorFlow read."""

_READS: Final = frozenset({"get", "copy", "items", "keys", "values"})


@contextlib.contextmanager
def imports_noted(name: str) -> Iterator[None]:
    """Notes which modules are there afterwards that were not before."""
    before = set(sys.modules)
    yield
    if name.partition(".")[0] not in _OWN:
        imported_ahead.update(sys.modules.keys() - before)


def find_libraries(directory: pathlib.Path, *, most: int | None = None) -> tuple[str, ...]:
    """Returns the modules of installed libraries that trials of a directory import at once.

    Followed are the imports at the top of the files in which a trial may be, and of the files of
    the directory that they import, in the order in which Python would run them. Where a file sets
    variables of the environment or changes where modules are found, the rest is left out, as it may
    depend on that. So are libraries outside the directories that installers write to: people change
    those while trials run.

    Args:
        directory: The user's code, which comes first where Python looks for modules.
        most: Files of any kind to look at, at most; None looks at all.
    """
    found: dict[str, None] = {}
    for path in source_folders.find_sources(directory, most=most):
        if b"Trial" in path.read_bytes():
            _Walk(directory, found).follow(path)
    own = {path.stem for path in directory.iterdir()}
    return tuple(sorted(name for name in found if name.partition(".")[0] not in own))


class _Walk:
    """Goes through files as Python would, until one changes what the imports after it find."""

    def __init__(self, directory: pathlib.Path, found: dict[str, None]) -> None:
        self._directory = directory
        self._found = found
        self._seen: set[pathlib.Path] = set()
        self._is_over = False

    def follow(self, path: pathlib.Path) -> None:
        if path in self._seen:
            return
        self._seen.add(path)
        try:
            body = ast.parse(path.read_bytes(), str(path)).body
        except (SyntaxError, ValueError):
            return  # Importing it says what is wrong with it.
        for statement in body:
            self._follow(statement, path)
            self._is_over = self._is_over or _changes_imports(statement)
            if self._is_over:
                return

    def _follow(self, statement: ast.stmt, path: pathlib.Path) -> None:
        match statement:
            case ast.Import(names=names):
                for alias in names:
                    self._add(alias.name, self._directory, ())
            case ast.ImportFrom(module=module, names=names, level=level):
                folder = path.parents[level - 1] if level else self._directory
                self._add(module or "", folder, [alias.name for alias in names], level=level)
            case ast.Try(body=body):
                for inner in body:
                    if not self._is_over:
                        self._follow(inner, path)

    def _add(
        self, module: str, folder: pathlib.Path, names: list[str] | tuple[()], *, level: int = 0
    ) -> None:
        """Adds a module, and those of `names` that are modules in it; follows the user's own."""
        parts = module.split(".") if module else []
        if level or _find_file(folder, parts[:1]) or (folder / parts[0]).is_dir():
            steps = [parts[: number + 1] for number in range(len(parts))]
            for inner in (*steps, *([*parts, name] for name in names)):
                if (path := _find_file(folder, inner)) and not self._is_over:
                    self.follow(path)
            return
        if (top := _find_installed(parts[0])) is None:
            return
        self._found[module] = None
        if top.is_dir():
            for name in names:
                if _find_file(top, [*parts[1:], name], importlib.machinery.all_suffixes()):
                    self._found[f"{module}.{name}"] = None


def _find_file(
    folder: pathlib.Path, parts: list[str], suffixes: list[str] | tuple[str, ...] = (".py",)
) -> pathlib.Path | None:
    stem = str(folder.joinpath(*parts))
    places = (f"{start}{suffix}" for start in (f"{stem}/__init__", stem) for suffix in suffixes)
    return next((path for place in places if (path := pathlib.Path(place)).is_file()), None)


@functools.cache
def _find_installed(name: str) -> pathlib.Path | None:
    """Returns the folder or file of a library; None for the standard library and others' code."""
    if name in _OWN or name in sys.stdlib_module_names:
        return None
    try:
        spec = importlib.machinery.PathFinder.find_spec(name)
    except (ImportError, ValueError):
        return None
    if spec is None or spec.origin is None:
        return None
    path = pathlib.Path(spec.origin)
    if not _INSTALLED.intersection(path.parts):
        return None
    return path.parent if spec.submodule_search_locations else path


def _changes_imports(statement: ast.stmt) -> bool:
    """Returns whether a statement may change what the imports after it find, or what these read."""
    match statement:
        case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.Import():
            return False
        case ast.ImportFrom(module=module, names=names):
            return module == "os" and any(alias.name in ("environ", "putenv") for alias in names)
    harmless = set(_find_harmless(statement))
    for node in ast.walk(statement):
        match node:
            case ast.Attribute(attr="environ" | "putenv" | "unsetenv") if node not in harmless:
                return True
            case ast.Attribute(ast.Name("sys"), "path" | "modules" | "meta_path" | "path_hooks"):
                return True
    return False


def _find_harmless(statement: ast.stmt) -> Iterator[ast.AST]:
    """Yields the mentions of the environment that read it, or set what no library reads late."""
    for node in ast.walk(statement):
        match node:
            case ast.Subscript(value=environ, slice=key, ctx=context):
                if isinstance(context, ast.Load) or _is_harmless(key):
                    yield environ
            case ast.Call(func=ast.Attribute(value=environ, attr=method), args=[key, *_]):
                if method in _READS or (method == "setdefault" and _is_harmless(key)):
                    yield environ
            case ast.Call(func=ast.Attribute(value=environ, attr=method)) if method in _READS:
                yield environ
            case ast.Compare(comparators=[environ]):
                yield environ


def _is_harmless(key: ast.expr) -> bool:
    return (
        isinstance(key, ast.Constant)
        and isinstance(key.value, str)
        and key.value.startswith(_HARMLESS_PREFIXES)
    )
