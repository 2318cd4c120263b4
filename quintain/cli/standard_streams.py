"""Standard streams that are closed, that nobody reads any more, or that lead to a full disk.

A terminal may be closed and a pipe lose its reader (`... | head -1`) at any moment. Most commands
are over then. One that has work of its own goes on without output; it says so by
`outlive_readers`.

A file to which output is redirected may be on a disk that is full or broken. What a command says
on standard error meanwhile is left out, and ends no command. What it prints on standard output is
its result: a command whose result could not be written does not end with 0, and says why.
"""

import contextlib
import dataclasses
import errno
import io
import os
import stat
import sys
import threading
from typing import Any, Final

from typing_extensions import override

EXIT_BROKEN_PIPE: Final = 141
"""128 and the number of SIGPIPE, as shells have it."""

_GONE: Final = (errno.EPIPE, errno.EIO)
_OUTPUT: Final = "standard output"
_lost = threading.Event()


@dataclasses.dataclass
class _Policy:
    """Handling of a closed pipe or a full disk behind a stream."""

    fallback: str | os.PathLike[str] | None = None
    """Where output goes that nobody reads any more; None ends the command."""

    unwritten: OSError | None = None
    """Why some of standard output was not written."""


_policy = _Policy()


def is_lost() -> bool:
    """Returns whether output was lost, in a command that outlives its readers."""
    return _lost.is_set()


def open_missing() -> None:
    """Makes sure that the first three descriptors are there.

    Else the next files that are opened, a database say, would get their numbers, and whatever a
    library prints would be written into them.
    """
    for descriptor in range(3):
        try:
            os.fstat(descriptor)
        except OSError:
            os.open(os.devnull, os.O_RDWR)
    for number, (name, mode) in enumerate((("stdin", "r"), ("stdout", "w"), ("stderr", "w"))):
        if getattr(sys, name) is None:
            setattr(sys, name, open(number, mode, encoding="utf-8", closefd=False))  # noqa: SIM115


def watch() -> None:
    """Keeps what is printed from being lost without a word, and messages from ending a command."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        # What else takes its place, in tests say, has no disk to be full.
        if stream is getattr(sys, f"__{name}__"):
            stream.flush()
            sink = io.BufferedWriter(_Sink(stream.fileno(), is_result=name == "stdout"))
            replacement = io.TextIOWrapper(
                sink,
                encoding=stream.encoding,
                errors=stream.errors,
                line_buffering=stream.line_buffering or stream.write_through,
            )
            setattr(sys, name, replacement)


def outlive_readers(fallback: str | os.PathLike[str] = os.devnull) -> None:
    """Makes output that nobody can read any more vanish, instead of ending the command.

    Args:
        fallback: File to which it is appended from then on.
    """
    _policy.fallback = fallback
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(line_buffering=True)


def redirect(fallback: str | os.PathLike[str] = os.devnull) -> None:
    """Gives up the terminal: output is appended to a file, and there is no input."""
    _lost.set()
    with open(os.devnull, "rb") as null:
        os.dup2(null.fileno(), 0)
    for descriptor in (1, 2):
        _point(descriptor, fallback)


def flush() -> bool:
    """Writes what is left, and returns whether somebody could read it."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except BrokenPipeError:
            # The interpreter flushes them once more when it ends.
            redirect()
            return False
        except OSError:
            # It is kept (`find_unwritten`), and the rest is left out.
            continue
    return True


def find_unwritten() -> OSError | None:
    """Returns why some of what went to standard output was not written, or None if all was."""
    return _policy.unwritten


def _point(descriptor: int, path: str | os.PathLike[str]) -> None:
    """Makes a descriptor lead to a file, or nowhere if that can't be opened."""
    with contextlib.ExitStack() as stack:
        try:
            file = stack.enter_context(open(path, "ab"))
        except OSError:
            file = stack.enter_context(open(os.devnull, "ab"))
        os.dup2(file.fileno(), descriptor)


class _Sink(io.FileIO):
    """A descriptor whose output goes elsewhere, or is left out, when it can't be written."""

    def __init__(self, descriptor: int, *, is_result: bool) -> None:
        super().__init__(descriptor, "w", closefd=False)
        self._is_result = is_result

    @override
    def write(self, data: Any) -> int:
        try:
            return super().write(data)
        except OSError as error:
            if self._has_no_reader(error):
                if _policy.fallback is None:
                    raise
                _lost.set()
                _point(self.fileno(), _policy.fallback)
                return self.write(data)
            if self._is_result and _policy.unwritten is None:
                error.filename = _OUTPUT
                _policy.unwritten = error
                if _policy.fallback is None:
                    raise
            return len(data)

    def _has_no_reader(self, error: OSError) -> bool:
        # A disk may be broken, too: then it is not that nobody wants to read.
        is_file = stat.S_ISREG(os.fstat(self.fileno()).st_mode)
        return error.errno in _GONE and not is_file
