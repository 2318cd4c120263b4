"""Processes of the two models that are compared, and calls to them."""

import ast
import contextlib
import dataclasses
import importlib.util
import os
import pathlib
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from multiprocessing import connection
from typing import Any, Final

from quintain import errors

_NAMES: Final = ("build_model", "create_model", "make_model", "get_model", "model_fn")
"""Functions that build a model, where none is named."""

_PACKAGES: Final = {"keras2": ("tf_keras",), "graph": ("tf_keras", "tensorflow_estimator")}


@dataclasses.dataclass(frozen=True)
class Source:
    """A function of a file that builds a model."""

    role: str
    """OLD or NEW."""

    path: pathlib.Path
    function: str
    is_graph: bool

    def __str__(self) -> str:
        return f"{os.path.relpath(self.path)}:{self.function}"


def parse_source(text: str, role: str) -> Source:
    """Returns what `FILE:FUNCTION`, a file or a directory names.

    Raises:
        ConfigError: If there is no such function, or more than one could be meant.
    """
    name, sign, function = text.rpartition(":")
    path = pathlib.Path(name if sign else text)
    files = sorted(path.iterdir()) if path.is_dir() else [path]
    wanted = (function,) if sign else _NAMES
    found = [
        Source(role, file.resolve(), one.name, _is_graph(one, tree))
        for file in files
        if file.suffix == ".py" or not path.is_dir()
        for tree in [_parse(file, role)]
        for one in tree.body
        if isinstance(one, ast.FunctionDef) and one.name in wanted
    ]
    if len(found) != 1:
        seen = f"found {', '.join(map(str, found))}" if found else "found none"
        raise errors.ConfigError(
            f"{role} {text}: expected one function {' or '.join(wanted)}, {seen}. "
            f"Write FILE.py:FUNCTION."
        )
    return found[0]


def _parse(path: pathlib.Path, role: str) -> ast.Module:
    try:
        return ast.parse(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise errors.ConfigError(
            f"{role} {path}: {error.strerror}. Write FILE.py:FUNCTION."
        ) from error
    except (SyntaxError, ValueError) as error:
        line = getattr(error, "lineno", None) or 1
        raise errors.ConfigError(f"{role} {path}:{line}: this is no Python: {error}") from error


def _is_graph(function: ast.FunctionDef, tree: ast.Module) -> bool:
    names = [one.arg for one in (*function.args.args, *function.args.kwonlyargs)]
    return "features" in names or (
        not names
        and any(
            isinstance(node, ast.Attribute) and node.attr == "estimator" for node in ast.walk(tree)
        )
    )


class Lane:
    """The process of a model."""

    def __init__(self, source: Source, calls: connection.Connection, log: Any) -> None:
        """Takes the connection to a process that runs; `load` comes first."""
        self.source = source
        self._calls = calls
        self._log = log

    def load(self, source: Source) -> None:
        """Imports the file of a function of the same kind."""
        self.source = source
        self.call("load", str(source.path), source.function)

    def call(self, name: str, *arguments: Any) -> Any:
        """Returns what a method of the model returns.

        Raises:
            ConfigError: If the user's code fails, or the process ended.
        """
        place = f"{self.source.role} {self.source}"
        try:
            self._calls.send((name, arguments))
            is_done, found = self._calls.recv()
        except (EOFError, OSError) as error:
            self._log.seek(0)
            last = self._log.read().decode(errors="replace").strip().splitlines()[-3:]
            raise errors.ConfigError(f"{place}: its process ended: {' '.join(last)}") from error
        if not is_done:
            raise errors.ConfigError(f"{place}: {found}")
        return found


@contextlib.contextmanager
def open_lane(source: Source) -> Iterator[Lane]:
    """Starts the process of a model and ends it.

    Raises:
        ConfigError: If a package that older code needs is missing.
    """
    kind = "keras3" if source.role == "NEW" else "graph" if source.is_graph else "keras2"
    for package in _PACKAGES.get(kind, ()):
        if importlib.util.find_spec(package) is None:
            raise errors.ConfigError(
                f"{source.role} {source}: needs the package {package.replace('_', '-')}: "
                "pip install 'quintain[estimator]'"
            )
    environment = {key: one for key, one in os.environ.items() if key != "TF_USE_LEGACY_KERAS"}
    if kind != "keras3":
        environment["TF_USE_LEGACY_KERAS"] = "1"
    environment |= {"CUDA_VISIBLE_DEVICES": "-1", "KERAS_BACKEND": "tensorflow"}
    ours, theirs = socket.socketpair()
    with tempfile.TemporaryFile() as log, ours:
        with theirs:
            process = subprocess.Popen(
                [sys.executable, "-m", "quintain.certify.lane", str(theirs.fileno())],
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                stderr=log,
                env=environment,
            )
        with process, connection.Connection(ours.detach()) as calls:
            try:
                lane = Lane(source, calls, log)
                lane.call("prepare", kind)
                lane.load(source)
                yield lane
            finally:
                process.terminate()
