"""Adaptive throttle for work on all trials at once."""

import contextlib
import time
from collections.abc import Callable, Iterator
from typing import Final

_FEW: Final = 500
_PAUSE_FACTOR: Final = 20


class Throttle:
    """Throttle of a repeated job: always due for few trials, else so that it takes 5 % of time."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._next = 0.0

    def is_due(self, count: int) -> bool:
        """Returns whether it is time to look at so many."""
        return count < _FEW or self._clock() >= self._next

    @contextlib.contextmanager
    def duration_measured(self) -> Iterator[None]:
        """Notes how long the block takes."""
        begin = self._clock()
        try:
            yield
        finally:
            now = self._clock()
            self._next = now + _PAUSE_FACTOR * (now - begin)
