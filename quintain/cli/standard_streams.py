"""Standard streams that are closed, or that nobody reads any more.

A terminal may be closed and a pipe lose its reader (`... | head -1`) at any moment. Most commands
are over then. One that has work of its own goes on without output; it says so by
`outlive_readers`.
"""

import contextlib
import errno
import io
import os
import sys
import threading
from typing import Any, Final

from typing_extensions import override

EXIT_BROKEN_PIPE: Final = 141
"""128 and the number of SIGPIPE, as shells have it."""

_GONE: Final = (errno.EPIPE, errno.EIO)
_lost = threading.Event()


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


def outlive_readers(fallback: str | os.PathLike[str] = os.devnull) -> None:
    """Makes output that nobody can read any more vanish, instead of ending the command.

    Args:
        fallback: File to which it is appended from then on.
    """
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        # What else takes its place, in tests say, has no reader to lose.
        if stream is getattr(sys, f"__{name}__"):
            stream.flush()
            sink = io.BufferedWriter(_Sink(stream.fileno(), fallback))
            replacement = io.TextIOWrapper(
                sink,
                encoding=stream.encoding,
                errors=stream.errors,
                line_buffering=True,
            )
            setattr(sys, name, replacement)


def redirect(fallback: str | os.PathLike[str] = os.devnull) -> None:
    """Gives up the terminal: output is appended to a file, and there is no input."""
    _lost.set()
    with open(os.devnull, "rb") as null:
        os.dup2(null.fileno(), 0)
    for descriptor in (1, 2):
        _point(descriptor, fallback)


def flush() -> bool:
    """Writes what is left, and returns whether somebody could read it."""
    with contextlib.suppress(BrokenPipeError):
        sys.stdout.flush()
        sys.stderr.flush()
        return True
    # The interpreter flushes them once more when it ends.
    redirect()
    return False


def _point(descriptor: int, path: str | os.PathLike[str]) -> None:
    with open(path, "ab") as file:
        os.dup2(file.fileno(), descriptor)


class _Sink(io.FileIO):
    """A descriptor that leads to a file once nobody reads it any more."""

    def __init__(self, descriptor: int, fallback: str | os.PathLike[str]) -> None:
        super().__init__(descriptor, "w", closefd=False)
        self._fallback = fallback

    @override
    def write(self, data: Any) -> int:
        try:
            return super().write(data)
        except OSError as error:
            if error.errno not in _GONE:
                raise
            _lost.set()
            _point(self.fileno(), self._fallback)
            return super().write(data)
