"""Compiler processes with a common deadline."""

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from typing import Final, Self

_CLOSING_SECS: Final = 10.0


class BuildError(Exception):
    """The kernels can't be compiled; the message says why."""


class CompilerCalls:
    """Compiler processes with a common deadline; as a context manager it ends those under way.

    Each call leads a group of processes, so that what a wrapper or a driver of the compiler has
    started ends with it.
    """

    def __init__(self, limit_secs: float) -> None:
        self._limit_secs = limit_secs
        self._end = time.monotonic() + limit_secs
        self._running: set[subprocess.Popen[str]] = set()
        self._is_over = False

    def __enter__(self) -> Self:
        """Returns itself."""
        return self

    def __exit__(self, *_: object) -> None:
        """Ends what is under way."""
        self._is_over = True
        for process in tuple(self._running):
            if process.returncode is None:
                _kill(process)

    def run(self, command: Sequence[str], environment: Mapping[str, str] | None = None) -> str:
        """Returns what a command prints.

        Args:
            command: The program and its arguments.
            environment: Its variables; None for those of this process.

        Raises:
            BuildError: If it can't be run, fails, or does not end in time.
        """
        try:
            process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
                errors="replace",
                env=environment,
                process_group=0,
            )
        except OSError as error:
            raise BuildError(f"{command[0]} can't be run: {error.strerror}") from error
        self._running.add(process)
        if self._is_over:  # Another thread has just left.
            _kill(process)
        try:
            said, complaints = process.communicate(timeout=max(0.0, self._end - time.monotonic()))
        except subprocess.TimeoutExpired as error:
            raise BuildError(f"{command[0]} did not end within {self._limit_secs:g} s") from error
        finally:
            if process.returncode is None:
                _kill(process)
                with contextlib.suppress(subprocess.TimeoutExpired):
                    process.communicate(timeout=_CLOSING_SECS)
            self._running.discard(process)
        if process.returncode:
            raise BuildError(_describe_failure(command[0], process.returncode, complaints))
        return said


def _kill(process: "subprocess.Popen[str]") -> None:
    """Ends what is left of a call, and of what it has started."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)


def _describe_failure(program: str, code: int, complaints: str) -> str:
    lines = [line for line in complaints.splitlines() if "error" in line.lower()]
    said = (lines or complaints.strip().splitlines() or ["nothing"])[0]
    end = f"failed with exit code {code}" if code > 0 else f"was ended by signal {-code}"
    return f"{program} {end}: {said}"
