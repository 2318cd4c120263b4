"""Progress over the lines of standard input, shown on standard error."""

import os
import stat
import sys
import time
from typing import Final, TextIO

from quintain.cli import text_lines

_PROGRESS_SECS: Final = 0.5


class LineProgress:
    """Says on standard error how far things are, where that is a terminal."""

    def __init__(self, num_bytes: int | None) -> None:
        """Stores how much there is, if that is known."""
        self._num_bytes = num_bytes
        self._is_shown = sys.stderr.isatty() and not sys.stdout.isatty()
        self._start = self._last = time.monotonic()
        self._num_done = self._bytes_done = 0

    def __enter__(self) -> "LineProgress":
        """Returns itself."""
        return self

    def __exit__(self, *_: object) -> None:
        """Removes the line."""
        if self._is_shown:
            sys.stderr.write("\r\x1b[K")

    def show(self, line: text_lines.Line) -> None:
        """Counts a line, and says from time to time how far things are."""
        self._num_done += 1
        self._bytes_done += len(line.text.encode()) + 1
        now = time.monotonic()
        if not self._is_shown or now - self._last < _PROGRESS_SECS:
            return
        self._last = now
        secs = now - self._start
        text = f"{self._num_done:,} lines  {self._num_done / secs:,.1f} lines/s"
        if self._num_bytes:
            left = secs * max(self._num_bytes / self._bytes_done - 1, 0)
            text += f"  ETA {int(left) // 3600}:{int(left) // 60 % 60:02}:{int(left) % 60:02}"
        sys.stderr.write(f"\r\x1b[K{text}")
        sys.stderr.flush()


def measure(file: TextIO) -> int | None:
    """Returns the bytes of a file; None of a pipe or a terminal."""
    try:
        status = os.fstat(file.fileno())
    except OSError:  # Not a file of the operating system.
        return None
    return status.st_size if stat.S_ISREG(status.st_mode) else None
