"""Finds out which stage of an input pipeline is too slow, by running the stages on their own.

A `tf.data` pipeline is a chain of datasets, and each dataset of the chain can be iterated over for
itself. The time of a stage is the time of the chain up to it, less that of the chain before it.
"""

import contextlib
import dataclasses
import logging
import threading
import time
from collections.abc import Callable
from typing import Any, Final, TypeAlias

import tensorflow as tf

from quintain.input.diagnosis import pipeline_inspection

DEFAULT_PROBE_SECS: Final = 3.0
"""Seconds for which each stage may run."""

STALL_SECS: Final = 60.0
"""Seconds without a training step after which the input is looked at."""

_IDLE_RATIO: Final = 0.05
"""A process that takes less of one processor than this only waits, on a busy machine too."""

_MAX_EXAMPLES: Final = 2_000
_SERVICE: Final = pipeline_inspection.SERVICE
# Datasets that only pass elements on: they are part of the stage before them.
_PASSING: Final = ("options", "prefetch", "model", "assert cardinality", "repeat")

DatasetOrFn: TypeAlias = tf.data.Dataset | Callable[[], tf.data.Dataset]

_name_stage = pipeline_inspection.stage_name
_logger = logging.getLogger(__name__)


@dataclasses.dataclass(frozen=True)
class StageTime:
    """Time of one stage of a pipeline."""

    name: str
    """Work of the stage: `files`, `decode`, `parse`, `batch`, or the kind of its dataset."""

    secs_per_example: float
    """Seconds of this stage alone; at least so many if `is_stalled`."""

    is_stalled: bool = False
    """Whether nothing came out of it in the time it was given."""

    def __str__(self) -> str:
        if self.name == _SERVICE:
            return f"the {_SERVICE}, which can't be measured from here; look at its workers"
        if self.is_stalled:
            return f"{self.name!r}, which gave nothing for {self.secs_per_example:.1f} s"
        return f"{self.name!r}, which takes {self.secs_per_example * 1e3:.3g} ms for an example"


def measure_stages(
    dataset: DatasetOrFn, *, probe_secs: float = DEFAULT_PROBE_SECS
) -> list[StageTime]:
    """Measures every stage of a pipeline, from its source to its end.

    The stages are run by iterators of their own, so that the position of training does not change,
    though the processor is shared with it. The work of a tf.data service is not run again. A stage
    that gives nothing ends the measurement.
    """
    if not isinstance(dataset, tf.data.Dataset):
        dataset = dataset()
    times: list[StageTime] = []
    _measure(dataset, probe_secs, times)
    return times


def find_slow_stage(
    dataset: DatasetOrFn, *, probe_secs: float = DEFAULT_PROBE_SECS
) -> StageTime | None:
    """Returns the slowest stage of a pipeline; None if it has no stage that can be measured."""
    times = measure_stages(dataset, probe_secs=probe_secs)
    return max(times, key=lambda stage: (stage.is_stalled, stage.secs_per_example), default=None)


@dataclasses.dataclass(frozen=True)
class _Run:
    """Measurements of iterating over a dataset for a while."""

    secs_per_example: float
    first_secs: float
    """Seconds until its first element."""


def _measure(dataset: Any, probe_secs: float, times: list[StageTime]) -> _Run | None:
    """Measures a dataset and all before it, and returns its run; None if nothing came."""
    name, last = _name_stage(dataset), dataset
    while len(inputs := last._inputs()) == 1:
        before = _name_stage(inputs[0])
        if name not in _PASSING and before not in (name, *_PASSING):
            break
        name, last = before if name in _PASSING else name, inputs[0]
    if name == _SERVICE:
        times.append(StageTime(name, 0.0, is_stalled=True))
        return None
    runs = []
    for part in inputs:
        run = _measure(part, probe_secs, times)
        if run is None:
            return None
        runs.append(run)
    # A mixture draws each example from one of its inputs; a chain has one input.
    secs_before = sum(run.secs_per_example for run in runs) / max(len(runs), 1)
    first_secs_before = sum(run.first_secs for run in runs)
    wait_secs = probe_secs + first_secs_before
    run = _run(dataset, wait_secs)
    if run is None:
        # A stage that gathers examples may wait for those before it. They are to blame then.
        num_needed = _MAX_EXAMPLES if _gathers(last) else 1
        if probe_secs >= secs_before * num_needed:
            times.append(StageTime(name, wait_secs, is_stalled=True))
        return None
    times.append(StageTime(name, max(run.secs_per_example - secs_before, 0.0)))
    return run


def _gathers(dataset: Any) -> bool:
    """True if a dataset takes many elements before it gives one."""
    kind = type(dataset).__name__
    return any(word in kind for word in ("Shuffle", "Batch", "Window", "Filter", "Skip", "Shard"))


def _is_batched(dataset: Any) -> bool:
    inputs = dataset._inputs()
    kind = type(dataset).__name__
    if "Batch" in kind or "GroupByWindow" in kind:
        return True
    return any(_is_batched(part) for part in inputs)


def _run(
    dataset: tf.data.Dataset, wait_secs: float, max_examples: int = _MAX_EXAMPLES
) -> _Run | None:
    """Iterates over a dataset for a while; returns None if nothing came.

    The first element counts only where it is the only one, because buffers are filled before it.
    """
    is_batched = _is_batched(dataset)
    arrivals: list[tuple[float, int]] = []
    is_over = threading.Event()

    def draw() -> None:
        num_examples = 0
        with contextlib.suppress(tf.errors.OpError):
            for element in dataset:
                num_examples += _count_examples(element) if is_batched else 1
                arrivals.append((time.perf_counter(), num_examples))
                if is_over.is_set() or num_examples >= max_examples:
                    break
        is_over.set()

    start = time.perf_counter()
    # A thread of its own, because a stage that hangs can't be stopped.
    threading.Thread(target=draw, name="input-probe", daemon=True).start()
    has_ended = is_over.wait(wait_secs)
    if len(arrivals) == 1:
        is_over.wait(wait_secs)  # The first came late: its rate is that of those that follow.
    is_over.set()
    if not arrivals:
        return _Run(0.0, 0.0) if has_ended else None
    (first_secs, first_count), (last_secs, last_count) = arrivals[0], arrivals[-1]
    if last_count == first_count:
        return _Run((first_secs - start) / max(first_count, 1), first_secs - start)
    return _Run((last_secs - first_secs) / (last_count - first_count), first_secs - start)


def _count_examples(element: Any) -> int:
    leaves = [leaf for leaf in tf.nest.flatten(element) if leaf.shape.rank]
    return int(leaves[0].shape[0]) if leaves else 1


class StallWatch:
    """Warns while training waits for its input and nothing comes, and names the stage to blame.

    A thread looks at a counter of steps. Where it stands still for `stall_secs`, the pipeline is
    measured: if it gives batches readily, the wait has another reason, such as a compilation, and
    nothing is said. A process that computes meanwhile may be in a long step, and a machine with
    too much to do lets the measurement wait, too: then the pipeline gets as long as the step had.

    Example:
        >>> dataset = tf.data.Dataset.range(3)
        >>> with StallWatch(dataset, lambda: 0, stall_secs=60.0):
        ...     sum(int(number) for number in dataset)
        3
    """

    def __init__(
        self,
        dataset: DatasetOrFn,
        count_steps: Callable[[], int],
        *,
        stall_secs: float = STALL_SECS,
        probe_secs: float = DEFAULT_PROBE_SECS,
    ) -> None:
        """Stores what to watch; nothing runs yet.

        Args:
            dataset: The pipeline, or a function that builds it.
            count_steps: Returns the number of steps done; called from another thread.
            stall_secs: Seconds without a step before the pipeline is measured.
            probe_secs: Seconds for which each of its stages may run.
        """
        self._dataset = dataset
        self._count_steps = count_steps
        self._stall_secs = stall_secs
        self._probe_secs = probe_secs
        self._is_over = threading.Event()
        self._thread: threading.Thread | None = None

    def __enter__(self) -> "StallWatch":
        self._is_over.clear()
        self._thread = threading.Thread(target=self._watch, name="stall-watch", daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *exc_info: object) -> None:
        self._is_over.set()

    def _watch(self) -> None:
        last_count, last_secs = self._count_steps(), time.monotonic()
        last_cpu_secs = time.process_time()
        has_looked = False
        while not self._is_over.wait(self._stall_secs / 4):
            count, waited_secs = self._count_steps(), time.monotonic() - last_secs
            if count != last_count:
                last_count, last_secs, has_looked = count, time.monotonic(), False
                last_cpu_secs = time.process_time()
            elif not has_looked and waited_secs >= self._stall_secs:
                has_looked = True
                used_secs = time.process_time() - last_cpu_secs
                self._look(count, waited_secs, is_idle=used_secs < _IDLE_RATIO * waited_secs)

    def _look(self, count: int, waited_secs: float, *, is_idle: bool) -> None:
        stage = find_slow_stage(self._dataset, probe_secs=self._probe_secs)
        if stage is None or not stage.is_stalled:
            return
        if not is_idle and stage.name != _SERVICE:
            dataset = self._dataset
            built = dataset if isinstance(dataset, tf.data.Dataset) else dataset()
            if _run(built, waited_secs, max_examples=1) is not None:
                return
        if self._is_over.is_set() or self._count_steps() != count:
            return
        if stage.name == _SERVICE:
            _logger.warning(
                "No training step for %.0f s. If none is being compiled, the %s gives no batch: "
                "look whether it has workers.", waited_secs, _SERVICE,
            )  # fmt: skip
        else:
            _logger.warning(
                "No training step for %.0f s: the input gives no batch. The stage to look at is "
                "%s.", waited_secs, stage,
            )  # fmt: skip
