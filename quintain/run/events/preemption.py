"""Preemption notices: an orderly end before the cluster takes a machine away.

A process that is to end gets SIGTERM, which `orbit.Interruption` handles. Google Compute Engine
announces maintenance of a machine sooner, in the machine's metadata. Here that notice becomes a
request to stop, like a signal; all workers then save a checkpoint after the same step.
"""

import contextlib
import logging
import threading
from collections.abc import Callable, Iterator
from typing import Final

import tensorflow as tf
from tensorflow.python.distribute.failure_handling import failure_handling_util

from quintain import orbit

REASON: Final = "a notice of preemption"
POLL_SECS: Final = 1.0

logger = logging.getLogger(__name__)


@contextlib.contextmanager
def notices_watched(
    strategy: tf.distribute.Strategy,
    interruption: orbit.Interruption | None,
    *,
    has_notice: Callable[[], bool] | None = None,
    poll_secs: float = POLL_SECS,
) -> Iterator[None]:
    """Requests `interruption` when the cluster announces the end of this machine.

    Args:
        strategy: Strategy of the run. Notices are looked for only if it has a cluster resolver.
        interruption: What to request; None looks for nothing.
        has_notice: Whether there is a notice. None asks the metadata of Google Compute Engine, if
            that is where this runs.
        poll_secs: Seconds between two looks.
    """
    if interruption is None or strategy.cluster_resolver is None:
        yield
        return
    ended = threading.Event()
    watcher = threading.Thread(
        target=_watch,
        args=(interruption, has_notice, ended, poll_secs),
        name="quintain-preemption",
        daemon=True,
    )
    watcher.start()
    try:
        yield
    finally:
        ended.set()
        if has_notice is not None:
            watcher.join()


def _watch(
    interruption: orbit.Interruption,
    has_notice: Callable[[], bool] | None,
    ended: threading.Event,
    poll_secs: float,
) -> None:
    """Body of the thread. Finding out where it runs may take seconds without a network."""
    if has_notice is None:
        if not failure_handling_util.on_gcp():
            return
        has_notice = failure_handling_util.termination_watcher_function_gce
    while not ended.is_set():
        try:
            if has_notice():
                interruption.request(REASON)
                return
        except OSError as error:
            logger.warning("The notices of the cluster can't be read: %s", error)
        ended.wait(poll_secs)
