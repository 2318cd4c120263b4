"""Asynchronous training: workers take steps by themselves, on weights kept by parameter servers.

The coordinator schedules the steps one by one, so that all workers are busy. Each step has a
number. A step that its worker did not report, because the worker died, is run again by another one,
unless its number was marked as done: the marking follows the update, so that a step is neither lost
nor counted twice. What is left is a worker that dies in the middle of an update: the part of the
weights that it had written is then written again by the repeated step.
"""

import collections
import logging
from collections.abc import Callable, Sequence
from typing import Any, Final

import tensorflow as tf

from quintain import errors
from quintain.orbit import interruption as interruption_lib

STEPS_IN_FLIGHT_PER_WORKER: Final = 4
"""Steps that are scheduled ahead, so that no worker waits for the coordinator."""

_NUM_MARKS: Final = 16_384
"""Numbers of steps that are remembered as done; more than can be in flight."""

_LOST_SERVER_ERRORS: Final = (
    tf.errors.UnavailableError,
    tf.errors.AbortedError,
    tf.errors.FailedPreconditionError,
)

_WARN_OF_EXTERNAL_STATE: Final = 0

logger = logging.getLogger(__name__)


class AsyncTraining:
    """The coordinator's side of training with parameter servers."""

    def __init__(
        self, strategy: tf.distribute.ParameterServerStrategy, global_step: tf.Variable
    ) -> None:
        """Connects to the cluster; to be called in the scope of the strategy."""
        self.coordinator = tf.distribute.coordinator.ClusterCoordinator(strategy)
        self._strategy = strategy
        self._global_step = global_step
        self._num_workers = int(strategy._extended._num_workers)
        # Not the global step: a recovery goes back to an earlier one, whose number is marked.
        self._num_scheduled = 0
        with strategy.scope():
            self._done = tf.Variable(
                tf.fill([_NUM_MARKS], tf.constant(-1, tf.int64)), trainable=False, name="done_steps"
            )
            self._tickets = tf.Variable(0, dtype=tf.int64, trainable=False, name="data_tickets")
        logger.warning(
            "Under 'parameter_server' the position in the training data is not stored: %d workers "
            "read it side by side. A resumed run skips as many batches as there were steps.",
            self._num_workers,
        )

    def join(self) -> None:
        """Waits for all scheduled steps.

        Raises:
            ClusterError: If a parameter server is lost.
        """
        self._guard(self.coordinator.join)

    def distribute_dataset(
        self, build: Callable[..., tf.data.Dataset]
    ) -> tf.distribute.DistributedDataset:
        """Returns training data of which each worker reads a part.

        Every worker runs the whole pipeline and takes every n-th batch. It starts behind the
        batches that earlier steps have used. A worker that is started again takes over the part of
        some worker, which need not be its former one.

        Args:
            build: Builds the dataset; called once, by the coordinator, which sends the pipeline to
                the workers.

        Raises:
            DataError: If the pipeline can't be sent, because it calls Python or uses a table.
        """
        dataset = build()
        pipeline, spec = _serialize(dataset), dataset.element_spec

        def build_part() -> tf.data.Dataset:
            ticket = self._tickets.assign_add(1, read_value=True) - 1
            variant = tf.raw_ops.DatasetFromGraph(graph_def=pipeline)
            whole = tf.data.experimental.from_variant(variant, spec)
            part = whole.skip(tf.convert_to_tensor(self._global_step))
            return part.shard(self._num_workers, ticket % self._num_workers)

        return self.coordinator.create_per_worker_dataset(build_part)

    def create_train_loop_fn(
        self,
        step_fn: Callable[[Any], None],
        get_interruption: Callable[[], interruption_lib.Interruption | None],
        counters: Sequence[Any] = (),
    ) -> Callable[[Any, tf.Tensor], int]:
        """Creates a loop that schedules steps one by one.

        Args:
            step_fn: Runs one step on the worker, given its iterator.
            get_interruption: Returns what may end the loop early.
            counters: Variables besides the global step that every step adds 1 to. After each loop
                they are set to what they must be, should a repeated step have added 1 twice.

        Returns:
            `loop_fn(iterator, num_steps)`, which returns the number of steps done.
        """
        scheduled_fn = self._create_numbered_step(step_fn)
        limit = STEPS_IN_FLIGHT_PER_WORKER * self._num_workers

        def loop_fn(iterator: Any, num_steps: tf.Tensor) -> int:
            every = (self._global_step, *counters)
            starts = [int(counter.numpy()) for counter in every]
            in_flight: collections.deque[Any] = collections.deque()
            number = 0
            while number < int(num_steps):
                interruption = get_interruption()
                if interruption is not None and interruption.requested:
                    break
                if len(in_flight) == limit:
                    self._guard(in_flight.popleft().fetch)
                in_flight.append(self._guard(lambda: self._schedule(scheduled_fn, iterator)))
                number += 1
            self.join()
            self._settle(every, [start + number for start in starts])
            return number

        return loop_fn

    def _schedule(self, scheduled_fn: Callable[..., None], iterator: Any) -> Any:
        """Schedules one step under a number that no other step of this process has."""
        number = tf.constant(self._num_scheduled, tf.int64)
        self._num_scheduled += 1
        return self.coordinator.schedule(scheduled_fn, args=(iterator, number))

    def _settle(self, counters: Sequence[Any], expected: Sequence[int]) -> None:
        """Sets counters to the steps that were done, and says if there is a difference."""
        found = [int(counter.numpy()) for counter in counters]
        if found != list(expected):
            logger.warning(
                "Steps were interrupted in the middle of their update and done again: the step and "
                "the count of the optimizer came to %s and are set to %s. Their updates may have "
                "been written twice.",
                found,
                list(expected),
            )
        for counter, count in zip(counters, expected, strict=True):
            counter.assign(count)

    def _create_numbered_step(self, step_fn: Callable[[Any], None]) -> Callable[..., None]:
        """Wraps a step so that it is not done twice, should its worker die after it."""
        # A function of its own is done, side effects and all, before what depends on it.
        update = tf.function(lambda iterator: _run(step_fn, iterator))

        # It returns nothing: a result would have to be fetched from a worker that may be gone.
        @tf.function
        def run_step(iterator: Any, number: tf.Tensor) -> None:
            place = number % _NUM_MARKS
            if tf.not_equal(self._read_mark(place), number):
                with tf.control_dependencies([update(iterator)]):
                    tf.raw_ops.ResourceScatterUpdate(
                        resource=self._done.handle, indices=place, updates=number
                    )

        scheduled_fn: Callable[..., None] = run_step
        return scheduled_fn

    def _read_mark(self, place: tf.Tensor) -> tf.Tensor:
        return tf.raw_ops.ResourceGather(
            resource=self._done.handle, indices=place, dtype=tf.int64, batch_dims=0
        )

    def _guard(self, call: Callable[[], Any]) -> Any:
        """Calls, and says what to do if the cluster has broken down or the data has ended."""
        try:
            try:
                return call()
            except tf.errors.CancelledError:
                self.coordinator.join()  # Raises the error for which this step was cancelled.
                raise
        except tf.errors.OutOfRangeError as error:
            raise errors.DataError(
                "task.train_data: the data ended before trainer.train_steps. Under "
                "'parameter_server' every worker reads its part at its own pace, so the training "
                "data has to repeat without end."
            ) from error
        except _LOST_SERVER_ERRORS as error:
            raise errors.ClusterError(
                "A parameter server was lost, and with it the weights of the running loop: "
                f"{error.message.strip().partition(chr(10))[0]} Its own output says why. Once that "
                "is mended, start the cluster again with the same command; the run goes on from "
                "its last checkpoint."
            ) from error


def _serialize(dataset: tf.data.Dataset) -> tf.Tensor:
    """Returns a pipeline as a `[]` string that another process can read."""
    try:
        return tf.raw_ops.DatasetToGraphV2(
            input_dataset=tf.data.experimental.to_variant(dataset),
            external_state_policy=_WARN_OF_EXTERNAL_STATE,
            strip_device_assignment=True,
        )
    except tf.errors.OpError as error:
        raise errors.DataError(
            "task.train_data: the input pipeline can't be sent to the workers of "
            f"'parameter_server': {error.message.strip().partition(chr(10))[0]}"
        ) from error


def _run(step_fn: Callable[[Any], None], iterator: Any) -> tf.Tensor:
    step_fn(iterator)
    return tf.constant(True)
