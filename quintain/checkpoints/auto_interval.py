"""Steps between checkpoints, by what a checkpoint costs and how often a run is interrupted."""

import itertools
import math
import time
from typing import Final

EXPECTED_SECS: Final = 3600.0
"""Seconds between two interruptions of a run that says nothing about it."""


class AutoInterval:
    """Steps between checkpoints with which the least time is lost.

    What is lost is the time for checkpoints, and the work since the last one when a run is
    interrupted. Together they are least with a checkpoint every sqrt(2 C M) seconds, if one costs C
    and interruptions are M seconds apart.

    Source:
        Young, "A first order approximation to the optimum checkpoint interval" (1974).

    Args:
        secs_between_interruptions: M.
    """

    def __init__(self, secs_between_interruptions: float) -> None:
        self._secs_between = secs_between_interruptions
        self._cost_secs: float | None = None
        self._first: tuple[int, float] | None = None

    def note_cost(self, secs: float) -> None:
        """Takes note of the time from the start of a save until the files are there."""
        self._cost_secs = secs

    def find_steps(self, step: int) -> int:
        """Returns the steps between checkpoints; 1 before the first one, which tells the cost.

        Args:
            step: The step that has been reached.
        """
        now = time.monotonic()
        first_step, start = self._first = self._first or (step, now)
        if self._cost_secs is None or step <= first_step:
            return 1
        secs = math.sqrt(2 * self._cost_secs * self._secs_between)
        return max(1, round(secs * (step - first_step) / max(now - start, 1e-9)))


def find_secs_between(start_times: list[float], expected_secs: float = EXPECTED_SECS) -> float:
    """Returns the mean time between interruptions of a run.

    Args:
        start_times: When its processes were started, in seconds. Longer times than the expected one
            count as this, for the run may have rested.
        expected_secs: The time that is expected, which counts as one that was seen.
    """
    gaps = [later - sooner for sooner, later in itertools.pairwise(start_times)]
    known = [min(max(gap, 0.0), expected_secs) for gap in gaps]
    return (expected_secs + sum(known)) / (1 + len(known))
