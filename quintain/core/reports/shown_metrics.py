"""Names and selection of the metrics that people see."""

import dataclasses
from collections.abc import Mapping
from typing import Any, Final, Literal


@dataclasses.dataclass(frozen=True)
class MetricLabel:
    """Label of a metric in a line of several.

    Example:
        >>> MetricLabel("errors", ".1%").show(0.0213)
        'errors 2.1%'
        >>> MetricLabel("loss").show(12.3456)
        'loss 12.35'
    """

    text: str
    """A short name of it."""

    format: str | None = None
    """Format of the number, such as `.1%`. None shows as many digits as its size asks for. The page
    and `experiment best` follow those of one digit and one of `%feg`."""

    best: Literal["min", "max", ""] = ""
    """Which of its values is the best, the smallest or the largest; empty if neither is."""

    is_minor: bool = False
    """Whether the lines leave it out; it is in the table at the end of the run, and in the logs."""

    def show(self, value: Any) -> str:
        """Returns label and value; what is no number, such as one for each class, as it is."""
        try:
            number = float(value)
        except (TypeError, ValueError):
            return f"{self.text} {' '.join(str(value).split())}"
        digits = 1 if abs(number) >= 100 else 2 if abs(number) >= 10 else 3
        return f"{self.text} {number:{self.format or f'.{digits}f'}}"


LOSSES: Final[Mapping[str, MetricLabel]] = {
    "training_loss": MetricLabel("loss", best="min"),
    "validation_loss": MetricLabel("loss", best="min"),
}
"""Losses that the trainer itself measures, of every task."""

RATE_ENDING: Final = "_per_second"
"""Ends the names of what is counted by time."""

_MEASUREMENTS: Final = frozenset(
    {
        "total_loss|training_loss",  # The same as `training_loss` beside it.
        "learning_rate",
        "step_ms",
        "input_wait_ms",
        "compute_ms",
        "host_ms",
        "host_memory_gb",
        "device_memory_gb",
        "gradient_norm",
        "update_norm",
    }
)


def is_measurement(name: str) -> bool:
    """Returns whether a logged number says how a run goes, and not how well a task is learnt."""
    return name in _MEASUREMENTS or name.endswith(RATE_ENDING)
