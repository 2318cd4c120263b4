"""Signals that are told more than once, and mean one request."""

import contextlib
import math
import signal
import threading
import time
import types
from collections.abc import Callable, Iterator
from typing import Any, Final

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


@contextlib.contextmanager
def handled(handle: Callable[[signal.Signals], None]) -> Iterator[None]:
    """Calls `handle` for each request to end by SIGTERM, SIGINT or SIGHUP, in the main thread.

    SIGHUP, the end of the terminal, is left alone where it is ignored, as under `nohup`. In other
    threads, which can't handle signals, nothing is changed.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    requests = Requests()

    def call(number: int, frame: types.FrameType | None) -> None:
        del frame
        if not requests.is_told_again():
            handle(signal.Signals(number))

    numbers = [signal.SIGTERM, signal.SIGINT]
    if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:
        numbers.append(signal.SIGHUP)
    former: dict[int, Any] = {number: signal.signal(number, call) for number in numbers}
    try:
        yield
    finally:
        for number, handler in former.items():
            signal.signal(number, handler)
