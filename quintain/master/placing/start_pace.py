"""How many processes may be started now, so that the master can answer all that start.

Each of them asks for its trial, for work and with its first results within seconds. Thousands that
start together keep each other, and everybody else, waiting for all of that.
"""

import time
from collections.abc import Callable
from typing import Final

MOST_UNHEARD: Final = 512
"""Trials that are started and not heard of; more of them if processes take long to start."""

STARTS_PER_SEC: Final = 64.0
"""So many start in a second at least, however long those before take until they are heard of."""


class StartPace:
    """Says how many trials may be started. It is used by one thread only.

    Args:
        clock: Seconds that only go up.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._allowed = 0.0
        self._at_secs = clock()

    def count_allowed(self, num_unheard: int) -> int:
        """Returns how many may be started now.

        Args:
            num_unheard: Trials that were started, and of whose processes nothing was heard yet.
        """
        now_secs = self._clock()
        passed_secs, self._at_secs = now_secs - self._at_secs, now_secs
        self._allowed = min(self._allowed + passed_secs * STARTS_PER_SEC, STARTS_PER_SEC)
        return max(MOST_UNHEARD - num_unheard, int(self._allowed))

    def note_started(self, count: int) -> None:
        """Notes that so many were started."""
        self._allowed = max(self._allowed - count, 0.0)
