"""Reports of waiting for a PostgreSQL server, or for another program that writes."""

import logging
import time
from typing import Final

logger = logging.getLogger(__name__)

_SILENT_SECS: Final = 1.0
"""A wait that is over so soon is worth no word."""


class Waits:
    """Reason for waiting for a database, and its beginning. Any thread may ask."""

    def __init__(self, place: str) -> None:
        """Waits for nothing."""
        self._place = place
        self._reason = ""
        self._start = 0.0
        self._is_told = False

    def note(self, reason: str) -> None:
        """Notes why somebody waits, who goes on waiting until `end`.

        Args:
            reason: A whole message, but for its end; it names the place.
        """
        now = time.monotonic()
        if not self._reason:
            self._start, self._is_told = now, False
        self._reason = reason.rstrip(".")
        if now - self._start >= _SILENT_SECS and not self._is_told:
            self._is_told = True
            logger.warning("%s", self.describe())

    def end(self) -> None:
        """Notes that nobody waits any more."""
        if self._reason:
            self._reason = ""
            if self._is_told:
                secs = time.monotonic() - self._start
                logger.warning("%s: the database is there again after %.0f s.", self._place, secs)

    def describe(self) -> str:
        """Returns what is waited for, and since when; empty if nothing is."""
        reason = self._reason
        if not reason:
            return ""
        return f"{reason}; waiting for {time.monotonic() - self._start:.0f} s."
