"""Active time of an experiment, computed from its events.

Events carry the time of day, for people, and the seconds of a clock that nobody sets, by which the
budget of time is kept.
"""

import time
from collections.abc import Mapping
from typing import Any, Final

TAKEN_UP: Final = "taken_up"
"""Kind of the event that a master took the experiment up; the time before it does not count."""

_STEADY: Final = "steady_secs"


def stamp(event: Mapping[str, Any]) -> dict[str, Any]:
    """Returns an event with the moment in which it happens, which is now."""
    return {"time": time.time(), _STEADY: now(), **event}


def now() -> float:
    """Returns seconds by which one master measures; those of another one have another origin."""
    return time.monotonic()


class ActiveTime:
    """Seconds in which an experiment was active and a master ran."""

    def __init__(self) -> None:
        self._secs = 0.0
        self._last: float | None = None

    def note(self, event: Mapping[str, Any], *, is_active: bool) -> None:
        """Notes when an event happened.

        Args:
            event: The event.
            is_active: Whether the experiment was active until now.
        """
        # Events of older masters have the time of day only; the next master begins with `TAKEN_UP`.
        moment = event.get(_STEADY, event["time"])
        if is_active and event["kind"] != TAKEN_UP:
            self._secs = self.until(moment)
        self._last = moment

    def until(self, moment: float) -> float:
        """Returns the seconds up to a moment of `now`, if active since the last event."""
        return self._secs if self._last is None else self._secs + max(moment - self._last, 0.0)

    def forget(self) -> None:
        """Starts again at nothing."""
        self._secs = 0.0
