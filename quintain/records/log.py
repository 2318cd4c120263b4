"""Lines that trial processes, and the master about them, wrote."""

import dataclasses
import enum


class LogSource(enum.StrEnum):
    """Where a line comes from."""

    STDOUT = "stdout"
    """Standard output of the process."""

    STDERR = "stderr"
    """Standard error of the process."""

    MASTER = "master"
    """The master, about the trial."""


@dataclasses.dataclass(frozen=True)
class LogRow:
    """One line."""

    trial_id: int
    """The trial."""

    time: float
    """Seconds since the epoch, when the line was written."""

    source: LogSource
    """Where it comes from."""

    text: str
    """The line without its end."""

    id: int = 0
    """Number given by the store, growing with time; 0 before that."""
