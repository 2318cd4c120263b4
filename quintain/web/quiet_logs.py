"""Keeps a log from being filled by whoever can make a server complain."""

import logging
import time
from typing import Final

from typing_extensions import override

PAUSE_SECS: Final = 30.0
"""Time between two messages of the same kind."""

_MOST_KINDS: Final = 1000


class RateLimit(logging.Filter):
    """Lets one message of each kind through in a while, with the number of those left out."""

    def __init__(self, pause_secs: float = PAUSE_SECS) -> None:
        """Starts without any message."""
        super().__init__()
        self._pause_secs = pause_secs
        self._kinds: dict[tuple[int, str], tuple[float, int]] = {}

    @override
    def filter(self, record: logging.LogRecord) -> bool:
        if record.levelno < logging.WARNING:
            return True
        # asyncio appends what differs from case to case in further lines.
        kind = record.levelno, str(record.msg).partition("\n")[0]
        now_secs = time.monotonic()
        last_secs, num_left_out = self._kinds.get(kind, (-self._pause_secs, 0))
        if now_secs - last_secs < self._pause_secs:
            self._kinds[kind] = last_secs, num_left_out + 1
            return False
        if len(self._kinds) >= _MOST_KINDS:
            self._kinds.clear()
        self._kinds[kind] = now_secs, 0
        if num_left_out:
            record.msg = f"{record.getMessage()} ({num_left_out} more like it were left out.)"
            record.args = ()
        return True


def limit(name: str) -> None:
    """Limits how often a logger says the same.

    Args:
        name: Name of the logger.
    """
    found = logging.getLogger(name)
    if not any(isinstance(each, RateLimit) for each in found.filters):
        found.addFilter(RateLimit())


def leave_out(name: str, message: str) -> None:
    """Keeps a logger from saying what is said better elsewhere.

    Args:
        name: Name of the logger.
        message: What it is not to say, as the code that says it has it.
    """
    found = logging.getLogger(name)
    if not any(isinstance(each, _LeftOut) and each.message == message for each in found.filters):
        # Before what changes messages, as a limit does to say how many were left out.
        found.filters.insert(0, _LeftOut(message))


class _LeftOut(logging.Filter):
    def __init__(self, message: str) -> None:
        super().__init__()
        self.message = message

    @override
    def filter(self, record: logging.LogRecord) -> bool:
        return record.msg != self.message
