"""Loader of the compiled kernels.

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
from typing import Any, Final, NoReturn

import tensorflow as tf

from quintain import errors
from quintain.kernels import building, cache, sealed_files, sources
from quintain.kernels.compiler_calls import BuildError

_refused: set[str] = set()


PREBUILT: Final = pathlib.Path(__file__).parent / "prebuilt"
"""Where wheels carry libraries, each named by `building.find_portable_key`."""

INSTRUCTION_SET_VARIABLE: Final = "QUINTAIN_INSTRUCTION_SET"
"""Names the newest instruction set to use, one of `sources.INSTRUCTION_SETS`."""

_PROCESSOR_FLAGS: Final = {
    "avx512": {"avx512f", "avx512bw", "avx512dq", "avx512vl"},
    "avx512_bf16": {"avx512_bf16", "avx512_vnni"},
    "amx_bf16": {"amx_bf16", "amx_tile"},
}
"""Processor flags, as Linux names them, of each instruction set beside those of the one before."""

_NO_INSTRUCTIONS: Final = "the processor has no AVX2 and FMA"

_logger = logging.getLogger(__name__)


@dataclasses.dataclass(frozen=True)
class Library:
    """Loaded kernels."""

    operations: Any
    """Module of TensorFlow operations."""

    origin: str
    """Where they came from: `package`, `cache` or `compiled`."""

    instruction_set: str
    """The one that is used, a key of `sources.INSTRUCTION_SETS`."""

    compiler: str
    """What compiled them, with its version; empty for those of the package."""

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
    except (BuildError, UnavailableError, OSError, tf.errors.OpError) as error:
        return " ".join(str(error).split()) or type(error).__name__


def find_machine_reason() -> str | None:
    """Returns why this machine can't run native kernels, whatever is installed."""
    if sys.platform != "linux" or platform.machine() not in ("x86_64", "AMD64"):
        return (
            f"they are for Linux on x86-64, and this is {platform.system()} on {platform.machine()}"
        )
    flags = _read_processor_flags()
    if flags is not None and not {"avx2", "fma"} <= flags:
        return _NO_INSTRUCTIONS
    wanted = os.environ.get(INSTRUCTION_SET_VARIABLE, "")
    if wanted and wanted not in sources.INSTRUCTION_SETS:
        names = ", ".join(sources.INSTRUCTION_SETS)
        return f"${INSTRUCTION_SET_VARIABLE}: got {wanted!r}, expected one of {names}"
    return None


def emulates_bfloat16() -> bool:
    """Returns whether the processor is known to have no instructions for bfloat16."""
    flags = _read_processor_flags()
    return flags is not None and not {"avx512_bf16", "amx_bf16"} & flags


def _read_processor_flags() -> set[str] | None:
    """Returns what the processor can do; None if that is not known: the library itself asks it."""
    try:
        lines = pathlib.Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return None
    return next((set(line.split()) for line in lines if line.startswith("flags")), None)


def _find_newest() -> str:
    """Returns the newest instruction set that this processor may have, to compile for."""
    flags = _read_processor_flags()
    newest = "avx2"
    for name, needed in _PROCESSOR_FLAGS.items():
        if flags is not None and not needed <= flags:
            break
        newest = name
    return newest


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
    description, newest = building.describe_compiler(compiler), _find_newest()
    loaded: list[Library] = []
    origin = "cache"

    def build(directory: pathlib.Path) -> bytes:
        nonlocal origin
        origin = "compiled"
        return building.build(compiler, directory, newest)

    key = building.find_key(description, newest)
    cache.load_or_build(key, build, lambda path: loaded.append(_open(path, origin, description)))
    return loaded[0]


def _open(path: pathlib.Path, origin: str, compiler: str = "") -> Library:
    # It registers its operations when it is loaded first, which TensorFlow must be the one to do.
    operations = tf.load_op_library(os.fspath(path))
    functions = ctypes.CDLL(os.fspath(path))
    names = list(sources.INSTRUCTION_SETS)
    wanted = os.environ.get(INSTRUCTION_SET_VARIABLE) or names[-1]
    used = functions.quintain_limit_isa(1 + names.index(wanted))
    if not used:
        raise UnavailableError(_NO_INSTRUCTIONS)
    _refuse_second_derivatives(operations)
    return Library(operations, origin, names[used - 1], compiler, functions)


class SecondDerivativeError(errors.QuintainError):
    """A gradient that native kernels have computed can't be differentiated."""


def _refuse_second_derivatives(operations: Any) -> None:
    """Makes derivatives of a library's operations an error that says what to do."""
    for name in list_gradients(operations):
        if name not in _refused:
            _refused.add(name)
            tf.RegisterGradient(name)(_fail_second_derivative)


def list_gradients(operations: Any) -> list[str]:
    """Returns the names in graphs of a library's operations, such as `QuintainSumRows`."""
    names = [name for name in dir(operations) if name.startswith("quintain_")]
    own = [name for name in names if not name.endswith("_eager_fallback")]
    return ["".join(part.title() for part in name.split("_")) for name in own]


def _fail_second_derivative(operation: Any, *_: Any) -> NoReturn:
    raise SecondDerivativeError(
        f"{operation.type}: native kernels have no second derivatives, such as those of a gradient "
        "penalty, and none of forward mode. Set runtime.kernels to 'tensorflow', or compute what "
        "is differentiated so within `quintain.kernels.selection.plain_scope()`."
    )
