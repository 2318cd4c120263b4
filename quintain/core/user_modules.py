"""Modules of the user's own: their import and their places."""

import contextlib
import importlib
import importlib.machinery
import os
import pathlib
import site
import sys
import sysconfig
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from quintain import errors

MAIN: Final = "__main__"

_EMPTY: Final[Mapping[str, str]] = {}
_importing: list[str] = []
"""The modules that are being imported for a command, the innermost last."""


def import_modules(names: Sequence[str], directories: Mapping[str, str] = _EMPTY) -> None:
    """Imports modules that register experiments or define tasks.

    Args:
        names: Names of modules.
        directories: Where a run found some of them, by name. Such a directory is searched first;
            then, and for all others, the working directory and `sys.path`.

    Raises:
        ConfigError: If a module is not found, or fails.
    """
    for name in names:
        if "/" in name or name.startswith(".") or name.endswith(".py"):
            raise errors.ConfigError(
                f"import {name}: expected the name of a module, such as "
                f"{pathlib.PurePath(name).stem!r}, in the directory where its file is."
            )
        if name == MAIN:
            raise errors.ConfigError(
                "import __main__: the run was started in a notebook or an interactive session, "
                "whose classes are in no file. Put them into a module and start the run again."
            )
        _import(name, directories.get(name))


def find_directories(names: Sequence[str]) -> dict[str, str]:
    """Returns the directories from which modules were imported, by their names.

    Those of installed packages are left out, for they are found anywhere.
    """
    found = {name: _find_directory(name) for name in names}
    return {name: directory for name, directory in found.items() if directory is not None}


def name_module(module: str) -> str:
    """Returns the name under which a module can be imported: for a script that of its file.

    Args:
        module: `__module__` of a class or function; `__main__` of a notebook stays.
    """
    file = getattr(sys.modules.get(module), "__file__", None) if module == MAIN else None
    return pathlib.PurePath(file).stem if file else module


def is_own(file: str) -> bool:
    """True if a file is code of the user's own, neither Python's nor an installed package's."""
    package = pathlib.Path(__file__).parents[1]
    others = {*map(pathlib.Path, _installed()), package} - {package.parent}
    return others.isdisjoint(pathlib.Path(os.path.abspath(file)).parents)


def refuse_training(name: str) -> None:
    """Refuses to train while a command imports the module that wants to.

    Raises:
        ConfigError: If a command is importing a module.
    """
    if _importing:
        raise errors.ConfigError(
            f"import {_importing[-1]}: it calls {name}() when it is imported. Put what trains "
            'under `if __name__ == "__main__":`, so that commands can import the rest.'
        )


def search_first(directory: str) -> None:
    """Lets modules be found in a directory before all others."""
    if directory not in sys.path:
        sys.path.insert(0, directory)


def _import(name: str, directory: str | None) -> None:
    if directory is not None and _holds(directory, name):
        search_first(directory)
    else:
        search_first(os.getcwd())
    try:
        with _import_noted(name):
            importlib.import_module(name)
    except ImportError as error:
        from quintain.process import user_errors  # noqa: PLC0415 - only errors do

        place = user_errors.explain(error).place
        where = f"\n  {place}" if place else ""
        is_lost = isinstance(error, ModuleNotFoundError) and error.name == name
        hint = _advise(directory) if is_lost else ""
        raise errors.ConfigError(f"import {name}: {error}.{hint}{where}") from error


@contextlib.contextmanager
def _import_noted(name: str) -> Iterator[None]:
    _importing.append(name)
    try:
        yield
    finally:
        _importing.pop()


def _advise(directory: str | None) -> str:
    if directory is None:
        return " Run this where its file is, or name that directory in PYTHONPATH."
    state = "does not hold it any more" if os.path.isdir(directory) else "is not there any more"
    return (
        f" The run was started with it from {directory}, which {state}. Run this where its file "
        "is now, or name that directory in PYTHONPATH."
    )


def _holds(directory: str, name: str) -> bool:
    top = name.partition(".")[0]
    return importlib.machinery.PathFinder.find_spec(top, [directory]) is not None


def _find_directory(name: str) -> str | None:
    module = sys.modules.get(name) or _find_script(name)
    file = getattr(module, "__file__", None)
    if file is None:
        return None
    path = pathlib.Path(os.path.abspath(file))
    depth = name.count(".") + (path.name == "__init__.py")
    directory = path.parents[depth]
    return None if str(directory) in _installed() else str(directory)


def _find_script(name: str) -> object | None:
    """Returns the script that is running, if a module of this name would be its file."""
    return sys.modules.get(MAIN) if name_module(MAIN) == name else None


def _installed() -> set[str]:
    """Returns the directories whose modules are found wherever a command is started."""
    own = pathlib.Path(__file__).parents[2]
    return {*sysconfig.get_paths().values(), *site.getsitepackages(), str(own)}
