"""Log lines of trial processes, and of the master about them."""

import dataclasses
import enum
from typing import Final


class LogSource(enum.StrEnum):
    """Sources of a line."""

    STDOUT = "stdout"
    """Standard output of the process."""

    STDERR = "stderr"
    """Standard error of the process."""

    MASTER = "master"
    """The master, about the trial."""


@dataclasses.dataclass(frozen=True)
class LogFilter:
    """Filter of log lines. They come in the order in which they were stored."""

    after: int = 0
    """Number of a line: only later ones."""

    before: int | None = None
    """Number of a line: only earlier ones, and of these the newest."""

    limit: int = 1000
    """Most lines."""

    last: int | None = None
    """Only so many of the newest that fit."""

    source: LogSource | None = None
    """Only lines from there."""

    contains: str | None = None
    """Only lines with this text, in this case."""

    like: tuple[str, ...] = ()
    """Only lines like one of these patterns of SQL, in any case; empty for all."""

    @property
    def is_backward(self) -> bool:
        """True if the newest of the lines that fit are wanted, not the oldest."""
        return self.last is not None or self.before is not None

    @property
    def num_wanted(self) -> int:
        """Lines at most."""
        return self.limit if self.last is None else min(self.limit, self.last)


ALL: Final = LogFilter()
"""The first lines of all."""


@dataclasses.dataclass(frozen=True)
class LogRow:
    """One line."""

    trial_id: int
    time: float
    """Seconds since the epoch, when the line was written."""

    source: LogSource
    text: str
    """The line without its end."""

    id: int = 0
    """Number given by the store, growing with time; 0 before that."""
