"""Progress of sending the metrics of a trial to a logger."""

import dataclasses


@dataclasses.dataclass(frozen=True)
class SentMetrics:
    """Position up to which the metrics of one trial were sent to one logger."""

    trial_id: int
    logger: str
    """The logger: its number in the config, and its type."""

    cursor: str
    """What it needs to go on; see `quintain.loggers.follower.Cursor`."""

    is_closed: bool = False
    """Whether it was told that the trial has ended."""
