"""Lazy imports: names of a package that are imported when they are first used.

So a package can offer all that programs name without making each of them wait for TensorFlow.
"""

import importlib
import sys
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from quintain.reference import reference_names


def attach(
    package: str,
    modules: Iterable[str] = (),
    *,
    names: Mapping[str, Iterable[str]] | None = None,
    find_names: Callable[[], Mapping[str, str]] | None = None,
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Returns the `__getattr__` and the `__dir__` of a package.

    The package also offers what `reference_names` lists below it, and says why not what that
    refuses.

    Args:
        package: Name of the package, its `__name__`.
        modules: Its modules and packages that are attributes of it.
        names: What it offers of its modules, by their paths from it.
        find_names: Returns what else it offers, with the full names of the modules that have it.
            It is called when a name is asked for that is none of the above.

    Example:
        >>> __getattr__, __dir__ = attach(
        ...     "quintain.config", ["yaml_io"], names={"one_of": ["OneOfConfig"]}
        ... )
        >>> __getattr__("OneOfConfig")
        <class 'quintain.config.one_of.OneOfConfig'>
    """
    paths = set(modules)
    owners = {name: path for path, offered in (names or {}).items() for name in offered}

    def get(name: str) -> Any:
        if name in paths:
            return importlib.import_module(f"{package}.{name}")
        if name in owners:
            return getattr(importlib.import_module(f"{package}.{owners[name]}"), name)
        # A private name is asked for by the interpreter, before any module is there.
        found = find_names() if find_names and not name.startswith("_") else {}
        if name in found:
            return getattr(importlib.import_module(found[name]), name)
        path = f"{package}.{name}".partition(".")[2]
        if reference_names.find_home(path):
            return importlib.import_module(f"{package}.{name}")
        raise AttributeError(
            reference_names.find_refusal(path) or f"module {package!r} has no attribute {name!r}"
        )

    def list_names() -> list[str]:
        found = find_names() if find_names else {}
        moved = reference_names.names_in(package.partition(".")[2])
        return sorted({*vars(sys.modules[package]), *paths, *owners, *found, *moved})

    return get, list_names
