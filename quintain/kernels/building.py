"""Compiles the kernels with the system's C++ compiler."""

import concurrent.futures
import hashlib
import logging
import os
import pathlib
import platform
import shutil
import subprocess
import time
from collections.abc import Sequence
from typing import Final

import tensorflow as tf

from quintain.kernels import sources

COMPILERS: Final = ("g++", "c++")
_COMPILE_SECS: Final = 900

_logger = logging.getLogger(__name__)


class BuildError(Exception):
    """The kernels can't be compiled; the message says why."""


def find_compiler() -> str:
    """Returns the path of the C++ compiler: `$CXX`, or the system's.

    Raises:
        BuildError: If there is none.
    """
    names = [given] if (given := os.environ.get("CXX", "").strip()) else list(COMPILERS)
    for name in names:
        found = shutil.which(name)
        if found:
            return found
    raise BuildError(
        f"there is no C++ compiler ({' or '.join(names)}); install one, as by `apt install g++`"
    )


def describe_compiler(compiler: str) -> str:
    """Returns the first line of what a compiler says of its version.

    Raises:
        BuildError: If it can't be run.
    """
    return (_run([compiler, "--version"]).splitlines() or [""])[0]


def describe_tensorflow() -> str:
    """Returns all of TensorFlow that compiled kernels depend on."""
    abi = [flag for flag in tf.sysconfig.get_compile_flags() if not flag.startswith("-I")]
    versions = (tf.__version__, tf.version.GIT_VERSION, tf.version.COMPILER_VERSION)
    return " ".join([*versions, platform.machine(), *abi])


def find_key(compiler: str) -> str:
    """Returns a name for what `build` gives: different where anything it depends on is."""
    parts = (sources.fingerprint(), describe_tensorflow(), compiler, describe_compiler(compiler))
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


def build(compiler: str, directory: pathlib.Path) -> bytes:
    """Compiles everything and returns the library.

    Args:
        compiler: Path of the compiler.
        directory: Where it may leave files.

    Raises:
        BuildError: If that fails, with what the compiler said.
    """
    start = time.monotonic()
    _logger.warning("Compiling native kernels once (10 to 30 s) ...")
    if (reason := find_headers_reason()) is not None:
        raise BuildError(reason)
    given = [flag for flag in tf.sysconfig.get_compile_flags() if not flag.startswith(("-I", "--"))]
    units = sources.list_units(["-isystem", tf.sysconfig.get_include(), *given])
    environment = {**os.environ, "TMPDIR": str(directory), "LC_ALL": "C"}

    def compile_unit(unit: sources.Unit) -> None:
        source, output = sources.DIRECTORY / unit.source, directory / unit.output
        _run([compiler, *unit.flags, "-c", str(source), "-o", str(output)], environment)

    num_jobs = max(1, min(len(os.sched_getaffinity(0)), 8))
    with concurrent.futures.ThreadPoolExecutor(num_jobs) as pool:
        jobs = [pool.submit(compile_unit, unit) for unit in units]
        try:
            for job in concurrent.futures.as_completed(jobs):
                job.result()
        finally:
            pool.shutdown(cancel_futures=True)
    library = directory / "library.so"
    framework = [flag for flag in tf.sysconfig.get_link_flags() if flag.startswith("-l")]
    folders = [flag for flag in tf.sysconfig.get_link_flags() if flag.startswith("-L")]
    objects = [str(directory / unit.output) for unit in units]
    _run([compiler, "-shared", "-o", str(library), *objects, *folders, *framework], environment)
    _logger.info("Compiled native kernels in %.1f s.", time.monotonic() - start)
    return library.read_bytes()


def _run(command: Sequence[str], environment: dict[str, str] | None = None) -> str:
    try:
        done = subprocess.run(
            command,
            capture_output=True,
            text=True,
            errors="replace",
            check=False,
            timeout=_COMPILE_SECS,
            stdin=subprocess.DEVNULL,
            env=environment,
        )
    except OSError as error:
        raise BuildError(f"{command[0]} can't be run: {error.strerror}") from error
    except subprocess.TimeoutExpired as error:
        raise BuildError(f"{command[0]} did not end within {_COMPILE_SECS} s") from error
    if done.returncode:
        lines = [line for line in done.stderr.splitlines() if "error" in line.lower()]
        said = (lines or done.stderr.strip().splitlines() or ["nothing"])[0]
        raise BuildError(f"{command[0]} failed with exit code {done.returncode}: {said}")
    return done.stdout
