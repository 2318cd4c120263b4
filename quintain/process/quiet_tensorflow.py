"""Keeps back what TensorFlow writes to standard error while it is imported, and the time it wastes.

Its C++ parts write lines about oneDNN, CUDA and their own logging, some before any setting is read,
so that only the file descriptor can hold them back. `install` waits for the import; nothing happens
before, and no line is kept back if somebody has asked for them by `TF_CPP_MIN_LOG_LEVEL=0`.

A sixth of the import's time goes into looking for garbage among what is only being made; it is not
looked for meanwhile. And it compiles the same few names of types, such as "_atypes.Float32", to
expressions, eighteen thousand times; each is compiled once.
"""

import contextlib
import functools
import gc
import importlib.abc
import importlib.machinery
import importlib.util
import os
import re
import sys
import tempfile
import types
import typing
from collections.abc import Iterator, Sequence
from typing import Any, Final

LEVEL_VARIABLE: Final = "TF_CPP_MIN_LOG_LEVEL"
_LEVEL: Final = "3"
_LOG_LINE: Final = re.compile(
    rb"WARNING: All log messages before absl::InitializeLog\(\) is called .*"
    rb"|[IWE]\d{4} \d\d.* \S+:\d+\] .*"
    rb"|\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d+: [IWE] .*"
    rb"|To enable the following instructions: .*"
)


def install() -> None:
    """Makes the first import of TensorFlow in this process a quiet one."""
    is_known = any(isinstance(finder, _Finder) for finder in sys.meta_path)
    if "tensorflow" not in sys.modules and not is_known:
        sys.meta_path.insert(0, _Finder())


class _Finder(importlib.abc.MetaPathFinder):
    """Finds TensorFlow as the others do, once, and has it loaded quietly."""

    def find_spec(
        self,
        fullname: str,
        path: Sequence[str] | None,
        target: types.ModuleType | None = None,
    ) -> importlib.machinery.ModuleSpec | None:
        """Returns None but for TensorFlow."""
        del path, target
        if fullname != "tensorflow":
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(fullname)
        if spec is not None and spec.loader is not None:
            spec.loader = _Loader(spec.loader)
        return spec


class _Loader(importlib.abc.Loader):
    """Loads a module as its own loader does, without the lines of its log."""

    def __init__(self, loader: importlib.abc.Loader) -> None:
        """Stores the module's own loader."""
        self._loader = loader

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> types.ModuleType | None:
        """Creates what the module's own loader does."""
        return self._loader.create_module(spec)

    def exec_module(self, module: types.ModuleType) -> None:
        """Hands the module back to its own loader, and runs it."""
        module.__loader__ = self._loader
        if module.__spec__ is not None:
            module.__spec__.loader = self._loader
        is_quiet = os.environ.setdefault(LEVEL_VARIABLE, _LEVEL) != "0"
        with contextlib.ExitStack() as stack:
            if is_quiet:
                stack.enter_context(_without_log_lines())
            stack.enter_context(without_collecting())
            stack.enter_context(_compiling_names_once())
            self._loader.exec_module(module)


@contextlib.contextmanager
def without_collecting(*, is_kept: bool = False) -> Iterator[None]:
    """Turns the garbage collector off, if it is on, as for imports, which only make things.

    What was made counts as old afterwards: as young it would all be looked at at once, in a fifth
    of a second.

    Args:
        is_kept: Whether it stays till the process ends, and is never looked at again. That is for
            commands; in a process of somebody else's there may be garbage of theirs beside it.
    """
    if not gc.isenabled():
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        if is_kept or not gc.get_freeze_count():  # Else what others froze would thaw as well.
            gc.freeze()
            if not is_kept:
                gc.unfreeze()
        gc.enable()


@contextlib.contextmanager
def _compiling_names_once() -> Iterator[None]:
    """Has `typing` compile equal names of types to the same code, which nothing can change."""
    names: Any = vars(typing)
    names["compile"] = functools.cache(compile)  # It stands before the function built in.
    try:
        yield
    finally:
        del names["compile"]


@contextlib.contextmanager
def _without_log_lines() -> Iterator[None]:
    """Holds standard error back, and writes what is no line of a log when all is done."""
    try:
        original = os.dup(2)
    except OSError:  # There is no standard error.
        yield
        return
    if sys.stderr is not None:
        sys.stderr.flush()
    with tempfile.TemporaryFile() as held:
        os.dup2(held.fileno(), 2)
        try:
            yield
        finally:
            if sys.stderr is not None:
                sys.stderr.flush()
            os.dup2(original, 2)
            os.close(original)
            held.seek(0)
            for line in held:
                if not _LOG_LINE.fullmatch(line.rstrip(b"\n")):
                    os.write(2, line)
