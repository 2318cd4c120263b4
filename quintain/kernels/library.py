"""The compiled kernels, loaded into this process.

They come with the package, where it was built for this TensorFlow; from the user's cache, where
they were compiled before; or are compiled now.
"""

import ctypes
import dataclasses
import functools
import logging
import os
import pathlib
import platform
import sys
from typing import Any, Final

import tensorflow as tf

from quintain import errors
from quintain.kernels import building, cache, sealed_files, sources

PREBUILT: Final = pathlib.Path(__file__).parent / "prebuilt"
"""Where wheels carry libraries, each named by `building.find_portable_key`."""

_logger = logging.getLogger(__name__)


@dataclasses.dataclass(frozen=True)
class Library:
    """Loaded kernels."""

    operations: Any
    """Module of TensorFlow operations."""

    origin: str
    """Where they came from: `package`, `cache` or `compiled`."""

    instruction_set: str
    """The newest that this processor has, a key of `sources.INSTRUCTION_SETS`."""

    functions: ctypes.CDLL
    """The same library for what is no operation."""


class UnavailableError(errors.QuintainError):
    """Native kernels can't be used on this machine; the message says why."""


def get() -> Any:
    """Returns the operations, as `tf.load_op_library` does.

    Raises:
        UnavailableError: If there are none.
    """
    return load().operations


def load() -> Library:
    """Returns the kernels, which are loaded, and maybe compiled, by the first call.

    Raises:
        UnavailableError: If that is impossible.
    """
    found = _load_once()
    if isinstance(found, str):
        raise UnavailableError(found)
    return found


def find_reason() -> str | None:
    """Returns why there are no native kernels here; None if there are."""
    found = _load_once()
    return found if isinstance(found, str) else None


@functools.cache
def _load_once() -> Library | str:
    """Returns the kernels, or why there are none."""
    reason = find_machine_reason()
    if reason:
        return reason
    try:
        return _load_prebuilt() or _load_cached()
    except (building.BuildError, OSError, tf.errors.OpError) as error:
        return " ".join(str(error).split()) or type(error).__name__


def find_machine_reason() -> str | None:
    """Returns why this machine can't run native kernels, whatever is installed."""
    if sys.platform != "linux" or platform.machine() not in ("x86_64", "AMD64"):
        return (
            f"they are for Linux on x86-64, and this is {platform.system()} on {platform.machine()}"
        )
    try:
        lines = pathlib.Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return None  # The library itself asks the processor.
    flags = next((line.split() for line in lines if line.startswith("flags")), None)
    if flags is not None and not {"avx2", "fma"} <= set(flags):
        return "the processor has no AVX2 and FMA"
    return None


def _load_prebuilt() -> Library | None:
    """Returns the kernels that came with the package, if they fit."""
    path = PREBUILT / f"{building.find_portable_key()}.so"
    try:
        fault = sealed_files.find_fault(path, is_own=False)
        if fault is None:
            return _open(path, "package")
    except FileNotFoundError:
        return None
    except (OSError, tf.errors.OpError) as error:
        fault = " ".join(str(error).split())
    _logger.warning("The native kernels of the package can't be used: %s.", fault)
    return None


def _load_cached() -> Library:
    compiler = building.find_compiler()
    loaded: list[Library] = []
    origin = "cache"

    def build(directory: pathlib.Path) -> bytes:
        nonlocal origin
        origin = "compiled"
        return building.build(compiler, directory)

    key = building.find_key(compiler)
    cache.load_or_build(key, build, lambda path: loaded.append(_open(path, origin)))
    return loaded[0]


def _open(path: pathlib.Path, origin: str) -> Library:
    # It registers its operations when it is loaded first, which TensorFlow must be the one to do.
    operations = tf.load_op_library(os.fspath(path))
    functions = ctypes.CDLL(os.fspath(path))
    newest = functions.quintain_limit_isa(len(sources.INSTRUCTION_SETS))
    if not newest:
        raise OSError("the processor has no AVX2 and FMA")
    return Library(operations, origin, list(sources.INSTRUCTION_SETS)[newest - 1], functions)
