"""Start-up of programs that run TensorFlow: its log, oneDNN's cache, garbage collection.

Commands, the fork server and trial processes call it. Importing the package sets nothing.
"""

import contextlib
import gc
import os
import re
import sys
import tempfile
from collections.abc import Iterator
from typing import Final

LEVEL_VARIABLE: Final = "TF_CPP_MIN_LOG_LEVEL"
"""Least severity of what TensorFlow's C++ parts log, 0 to 3; read when it is imported."""

CAPACITY_VARIABLE: Final = "ONEDNN_PRIMITIVE_CACHE_CAPACITY"
"""Compiled products in oneDNN's cache; read before the first of them."""

_LOG_LINE: Final = re.compile(
    rb"WARNING: All log messages before absl::InitializeLog\(\) is called .*"
    rb"|[IWE]\d{4} \d\d.* \S+:\d+\] .*"
    rb"|\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d+: [IWE] .*"
    rb"|To enable the following instructions: .*"
)


def prepare(*, shows_log: bool = False) -> None:
    """Sets the process up for TensorFlow, which it is about to import.

    Args:
        shows_log: Whether TensorFlow's C++ parts log all that they do.
    """
    os.environ.setdefault(LEVEL_VARIABLE, "0" if shows_log else "3")
    turn_onednn_cache_off()
    from quintain.process import deferred_imports  # noqa: PLC0415 - for programs only

    deferred_imports.install()


def turn_onednn_cache_off() -> None:
    """Keeps oneDNN, with which TensorFlow multiplies on CPUs, from writing past its memory.

    A thread that finds a compiled product in oneDNN's cache asks its own description of the product
    for the size of its scratch memory; what another thread compiled may need more (TensorFlow 2.21,
    oneDNN 3.7.3: products that copy their first matrix). Then the heap is damaged, and the process
    dies some time later: in one run of a small model in ten to thirty. Without the cache each
    thread compiles its own, which TensorFlow keeps for each thread anyway.

    A capacity that the environment sets stays.
    """
    os.environ.setdefault(CAPACITY_VARIABLE, "0")


@contextlib.contextmanager
def quiet_imports(*, shows_log: bool = False) -> Iterator[None]:
    """Prepares the process, and drops what TensorFlow logs while it is imported.

    Some of that is written before the level is read, so that only the file descriptor holds it.

    Args:
        shows_log: Whether TensorFlow's C++ parts log all that they do.
    """
    prepare(shows_log=shows_log)
    is_shown = os.environ[LEVEL_VARIABLE] == "0"
    with without_collecting(), contextlib.nullcontext() if is_shown else _log_lines_dropped():
        yield


@contextlib.contextmanager
def _log_lines_dropped() -> Iterator[None]:
    """Holds standard error back, and at the end writes what is no line of a log."""
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


@contextlib.contextmanager
def without_collecting() -> Iterator[None]:
    """Turns the garbage collector off, if it is on, while modules are imported.

    A sixth of the time of importing TensorFlow goes into looking for garbage. What is there at the
    end stays until the process ends, and is never looked at again.
    """
    if not gc.isenabled():
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()
