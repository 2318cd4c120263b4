"""Compilation of the kernels with the system's C++ compiler."""

import concurrent.futures
import hashlib
import logging
import os
import pathlib
import platform
import shlex
import shutil
import time
from typing import Final

import tensorflow as tf

from quintain.kernels import sources
from quintain.kernels.compiler_calls import BuildError, CompilerCalls

COMPILERS: Final = ("g++", "c++")
_BUILD_SECS: Final = 400.0
_ANSWER_SECS: Final = 60.0

_logger = logging.getLogger(__name__)


def find_compiler() -> tuple[str, ...]:
    """Returns how the C++ compiler is called: by `$CXX`, such as `ccache g++`, or the system's.

    Raises:
        BuildError: If there is none.
    """
    names = [given] if (given := os.environ.get("CXX", "").strip()) else list(COMPILERS)
    for name in names:
        for words in ([name], _split(name)):
            if words and (found := shutil.which(words[0])):
                return (found, *words[1:])
    raise BuildError(
        f"there is no C++ compiler ({' or '.join(names)}); install one, as by `apt install g++`"
    )


def _split(name: str) -> list[str]:
    try:
        return shlex.split(name)
    except ValueError:
        return []


def describe_compiler(compiler: tuple[str, ...]) -> str:
    """Returns how a compiler is called, and the first line of what it says of its version.

    Raises:
        BuildError: If it can't be run.
    """
    with CompilerCalls(_ANSWER_SECS) as calls:
        said = calls.run([*compiler, "--version"])
    return f"{shlex.join(compiler)}: {(said.splitlines() or [''])[0]}"


def describe_tensorflow() -> str:
    """Returns all of TensorFlow that compiled kernels depend on."""
    abi = [flag for flag in tf.sysconfig.get_compile_flags() if not flag.startswith("-I")]
    versions = (tf.__version__, tf.version.GIT_VERSION, tf.version.COMPILER_VERSION)
    return " ".join([*versions, platform.machine(), *abi])


def find_key(description: str, newest: str) -> str:
    """Returns a name for what `build` gives: different where anything it depends on is.

    Args:
        description: What `describe_compiler` says.
        newest: The newest instruction set that it is compiled for.
    """
    parts = (sources.fingerprint(), describe_tensorflow(), description, newest)
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:32]


def find_portable_key() -> str:
    """Returns the same for a library that was built elsewhere, by whatever compiler."""
    parts = (sources.fingerprint(), describe_tensorflow())
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:32]


def find_headers_reason() -> str | None:
    """Returns what TensorFlow's headers lack; None if they are there."""
    headers = pathlib.Path(tf.sysconfig.get_include())
    is_there = (headers / "tensorflow" / "core" / "framework" / "op_kernel.h").exists()
    return None if is_there else f"TensorFlow's headers are not in {headers}"


def build(
    compiler: tuple[str, ...], directory: pathlib.Path, newest: str = sources.NEWEST
) -> bytes:
    """Compiles everything and returns the library.

    Args:
        compiler: How the compiler is called.
        directory: Where it may leave files.
        newest: The newest instruction set to compile for.

    Raises:
        BuildError: If that fails, with what the compiler said, or takes minutes.
    """
    start = time.monotonic()
    if (reason := find_headers_reason()) is not None:
        raise BuildError(reason)
    _logger.warning("Compiling native kernels once (10 to 40 s) ...")
    given = [flag for flag in tf.sysconfig.get_compile_flags() if not flag.startswith(("-I", "--"))]
    units = sources.list_units(["-isystem", tf.sysconfig.get_include(), *given], newest)
    environment = {**os.environ, "TMPDIR": str(directory), "LC_ALL": "C"}
    num_jobs = max(1, min(len(os.sched_getaffinity(0)), 8))
    # The calls end before their threads are waited for.
    with (
        concurrent.futures.ThreadPoolExecutor(num_jobs) as pool,
        CompilerCalls(_BUILD_SECS) as calls,
    ):

        def compile_unit(unit: sources.Unit) -> None:
            source, output = sources.DIRECTORY / unit.source, directory / unit.output
            calls.run([*compiler, *unit.flags, "-c", str(source), "-o", str(output)], environment)

        jobs = [pool.submit(compile_unit, unit) for unit in units]
        try:
            for job in concurrent.futures.as_completed(jobs):
                job.result()
        finally:
            pool.shutdown(wait=False, cancel_futures=True)
        library = directory / "library.so"
        framework = [flag for flag in tf.sysconfig.get_link_flags() if flag.startswith("-l")]
        folders = [flag for flag in tf.sysconfig.get_link_flags() if flag.startswith("-L")]
        objects = [str(directory / unit.output) for unit in units]
        command = [*compiler, "-shared", "-o", str(library), *objects, *folders, *framework]
        calls.run(command, environment)
    _logger.info("Compiled native kernels in %.1f s.", time.monotonic() - start)
    return library.read_bytes()
