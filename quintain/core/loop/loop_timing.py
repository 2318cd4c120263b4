"""Timing of training: input, computation, and the time between loops."""

import logging
import resource
import sys
import time
from collections.abc import Callable, Mapping
from typing import Any, Final

import tensorflow as tf

INPUT_BOUND_SHARE: Final = 0.3
"""Share of a step spent waiting for input, above which the input is too slow."""

_NUM_SLOW_LOOPS: Final = 3
_SHORT_LOOP_SECS: Final = 1.0
_MILLIS: Final = 1000.0
_GIB: Final = 2.0**30

logger = logging.getLogger(__name__)


class LoopTiming:
    """Measures each training loop, and says once which input stage is to blame if it is slow.

    The wait for input is measured inside of the graph, by the clock before and after the next batch
    is taken.
    """

    def __init__(self, get_probe_dataset: Callable[[], tf.data.Dataset] | None) -> None:
        """Creates the sum of waits, in the scope of the strategy.

        Args:
            get_probe_dataset: Builds the training pipeline anew, to measure its stages. None if it
                can't be built.
        """
        self._get_probe_dataset = get_probe_dataset
        self._wait_secs = tf.Variable(
            0.0, dtype=tf.float64, trainable=False, name="input_wait_seconds"
        )
        self._is_measuring = False
        self._start_secs = self._end_secs = 0.0
        self._start_step = 0
        self._host_secs = 0.0
        self._num_slow_loops = 0
        self._has_blamed = False

    def begin_loop(self, step: int) -> None:
        """Starts the clock of a loop."""
        self._start_secs = time.perf_counter()
        self._start_step = step
        # Before the first loop there is everything else that starting a run takes.
        self._host_secs = self._start_secs - self._end_secs if self._end_secs else 0.0

    def measure_next(self, next_fn: Callable[[], Any]) -> Any:
        """Takes the next batch and adds the time it takes to the wait; part of a step."""
        self._is_measuring = True
        start = tf.timestamp()
        with tf.control_dependencies([start]):
            inputs = next_fn()
        leaves = tf.nest.flatten(inputs, expand_composites=True)
        with tf.control_dependencies([leaf for leaf in leaves if tf.is_tensor(leaf)]):
            end = tf.timestamp()
        self._wait_secs.assign_add(end - start)

        def hold(leaf: Any) -> Any:
            """Keeps a tensor until the clock was read: on one thread, computing may come first."""
            if not tf.is_tensor(leaf):
                return leaf
            with tf.control_dependencies([end]), tf.device(leaf.device):
                return tf.identity(leaf)

        return tf.nest.map_structure(hold, inputs, expand_composites=True)

    def end_loop(self, step: int) -> dict[str, float]:
        """Stops the clock, and returns means over the steps of the loop.

        Returns:
            `step_ms`, `host_ms` (between this loop and the one before: actions, summaries,
            checkpoints, evaluations), `host_memory_gb` (the largest so far) and
            `device_memory_gb` (on GPUs); where the wait is measured, `input_wait_ms` and
            `compute_ms`, which add up to `step_ms`.
        """
        self._end_secs = time.perf_counter()
        num_steps = step - self._start_step
        if num_steps < 1:
            return {}
        secs = self._end_secs - self._start_secs
        logs = {
            "step_ms": _MILLIS * secs / num_steps,
            "host_ms": _MILLIS * self._host_secs / num_steps,
            **read_memory(),
        }
        if self._is_measuring:
            wait_secs = min(float(self._wait_secs.numpy()), secs)
            self._wait_secs.assign(0.0)
            logs["input_wait_ms"] = _MILLIS * wait_secs / num_steps
            logs["compute_ms"] = logs["step_ms"] - logs["input_wait_ms"]
            if secs >= _SHORT_LOOP_SECS:
                self._watch(wait_secs / secs)
        return logs

    def read_rates(self, counters: Mapping[str, tf.Variable]) -> dict[str, float]:
        """Returns `NAME_per_second` of the loop for each counter above 0, and resets it."""
        secs = self._end_secs - self._start_secs
        rates = {}
        for name, counter in counters.items():
            if count := int(counter.numpy()):
                rates[f"{name}_per_second"] = count / secs
                counter.assign(0)
        return rates

    def _watch(self, share: float) -> None:
        """Names the slow stage when the wait was long in several loops, one after the other."""
        self._num_slow_loops = self._num_slow_loops + 1 if share > INPUT_BOUND_SHARE else 0
        if self._num_slow_loops < _NUM_SLOW_LOOPS or self._has_blamed:
            return
        self._has_blamed = True
        stage = None
        if self._get_probe_dataset is not None:
            from quintain.input.diagnosis import input_watch  # noqa: PLC0415 - few loops are slow

            stage = input_watch.find_slow_stage(self._get_probe_dataset)
        logger.warning(
            "Training waits for its input for %.0f %% of the time.%s",
            100 * share,
            "" if stage is None else f" The slowest stage is {stage}.",
        )


def read_memory() -> dict[str, float]:
    """Returns the largest memory use so far, in GiB: of the process, and of all GPUs together."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    num_bytes = peak if sys.platform == "darwin" else peak * 1024
    logs = {"host_memory_gb": num_bytes / _GIB}
    gpus = tf.config.list_logical_devices("GPU")
    if gpus:
        peaks = [tf.config.experimental.get_memory_info(gpu.name)["peak"] for gpu in gpus]
        logs["device_memory_gb"] = sum(peaks) / _GIB
    return logs
