"""Waiting for checkpoints that another process writes."""

import time
from collections.abc import Callable, Iterator
from typing import Final

import tensorflow as tf

POLL_SECS: Final = 1.0


def iterate_new_checkpoints(
    directory: str,
    *,
    timeout_secs: float | None,
    timeout_fn: Callable[[], bool] | None,
    wait: Callable[[float], bool],
    clock: Callable[[], float] = time.monotonic,
) -> Iterator[str]:
    """Yields the latest checkpoint of a directory whenever there is another one.

    Checkpoints that come and go while the caller is busy with one are not seen.

    Args:
        directory: Where the checkpoints are; need not exist yet.
        timeout_secs: Seconds to wait for another checkpoint. None waits without limit.
        timeout_fn: Called after every checkpoint and after every time-out; iteration ends when it
            returns True. None ends it at the first time-out.
        wait: Sleeps for a number of seconds; iteration ends when it returns True.
        clock: Returns seconds.

    Yields:
        Paths of checkpoints.
    """
    last_path = None
    deadline = None if timeout_secs is None else clock() + timeout_secs
    while True:
        path = tf.train.latest_checkpoint(directory)
        if path is not None and path != last_path:
            yield path
            last_path = path
            if timeout_fn is not None and timeout_fn():
                return
        elif deadline is not None and clock() >= deadline:
            if timeout_fn is None or timeout_fn():
                return
        elif wait(POLL_SECS if deadline is None else min(POLL_SECS, deadline - clock())):
            return
        else:
            continue
        deadline = None if timeout_secs is None else clock() + timeout_secs
