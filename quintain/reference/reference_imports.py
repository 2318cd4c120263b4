"""Import finder for the paths of the Model Garden in `reference_names`."""

import importlib
import importlib.machinery
import importlib.util
import sys
from collections.abc import Sequence
from types import CodeType, ModuleType
from typing import Any, Final

from quintain.reference import reference_names

_PACKAGE: Final = __name__.partition(".")[0]


class _Loader:
    """Loader that gives a module under another name as it is."""

    def __init__(self, spec: importlib.machinery.ModuleSpec) -> None:
        """Initializes the loader.

        Args:
            spec: Of the module, by its own name.
        """
        self._spec = spec
        self._own_spec: importlib.machinery.ModuleSpec | None = None

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType:
        module = importlib.import_module(self._spec.name)
        self._own_spec = module.__spec__
        return module

    def exec_module(self, module: ModuleType) -> None:
        # The import system gave it the spec of the other name: with its own it can be reloaded.
        module.__spec__ = self._own_spec

    def is_package(self, fullname: str) -> bool:
        return self._spec.submodule_search_locations is not None

    def get_code(self, fullname: str) -> CodeType | None:
        """Returns what `python -m` runs."""
        loader: Any = self._spec.loader
        code: CodeType | None = loader.get_code(self._spec.name)
        return code

    def get_source(self, fullname: str) -> str | None:
        """Returns the text of the module, for whoever reads it without running it."""
        loader: Any = self._spec.loader
        source: str | None = loader.get_source(self._spec.name)
        return source


class _RefusedLoader:
    """Loader of modules that are not offered."""

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType:
        return reference_names.Refused(spec.name)

    def exec_module(self, module: ModuleType) -> None:
        """Runs nothing."""


class _Finder:
    """Import finder of the tables' paths, asked before files are looked for."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        package, _, inner = fullname.partition(".")
        if package != _PACKAGE or not inner:
            return None
        if refusal := reference_names.find_refusal(inner):
            if inner.endswith(".__main__"):  # `python -m` would say that it is a package.
                raise ImportError(refusal, name=fullname)
            return _to_spec(fullname, _RefusedLoader(), is_package=True)
        home = reference_names.find_home(inner)
        spec = importlib.util.find_spec(home) if home else None
        return spec and _to_spec(fullname, _Loader(spec))


def _to_spec(
    name: str, loader: Any, *, is_package: bool | None = None
) -> importlib.machinery.ModuleSpec | None:
    # `importlib.abc` has the classes of loaders, and takes 20 ms of every command to import.
    return importlib.util.spec_from_loader(name, loader, is_package=is_package)


def install() -> None:
    """Lets imports find the modules of `MOVED`, once."""
    if not any(isinstance(finder, _Finder) for finder in sys.meta_path):
        sys.meta_path.insert(0, _Finder())
