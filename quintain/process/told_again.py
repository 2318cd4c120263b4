"""Signals that are told more than once, and mean one request."""

import math
import time
from typing import Final

REPEAT_SECS: Final = 1.0
"""A signal that comes sooner than this after a request is taken for the same one. Coreutils'
`timeout` signals a process and its group; Slurm, at the end of a job, signals all processes of it,
twice, and the script that started them hands the signal on."""


class Requests:
    """Tells a further request to end from one that is told again."""

    def __init__(self) -> None:
        """Starts with no request."""
        self._made_secs = -math.inf

    def is_told_again(self) -> bool:
        """Notes a signal; returns whether it tells the last request once more."""
        now_secs = time.monotonic()
        if now_secs - self._made_secs < REPEAT_SECS:
            return True
        self._made_secs = now_secs
        return False
