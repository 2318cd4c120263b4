"""How long an experiment has been active, as its events tell it."""

from collections.abc import Mapping
from typing import Any, Final

TAKEN_UP: Final = "taken_up"
"""Kind of the event that a master took the experiment up; the time before it does not count."""


class ActiveTime:
    """Seconds in which an experiment was active and a master ran."""

    def __init__(self) -> None:
        """Starts at nothing."""
        self._secs = 0.0
        self._last: float | None = None

    def note(self, event: Mapping[str, Any], *, is_active: bool) -> None:
        """Notes when an event happened.

        Args:
            event: The event.
            is_active: Whether the experiment was active until now.
        """
        if is_active and event["kind"] != TAKEN_UP:
            self._secs = self.until(event["time"])
        self._last = event["time"]

    def until(self, now: float) -> float:
        """Returns the seconds up to a moment, if it has been active since the last event.

        Args:
            now: Seconds since the epoch; a clock that was set back counts nothing.
        """
        return self._secs if self._last is None else self._secs + max(now - self._last, 0.0)

    def forget(self) -> None:
        """Starts again at nothing."""
        self._secs = 0.0
