"""Trainer state that is checkpointed."""

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import keras
import tensorflow as tf

from quintain import orbit
from quintain.checkpoints import (
    checkpoint_fit,
    checkpoint_state,
    cluster_checkpoints,
    state_snapshot,
    task_state,
)
from quintain.core import base_task
from quintain.core.loop import loop_record, loop_timing, trainer_setup
from quintain.core.steps import model_metrics
from quintain.distribute import distribution, replica_seeds, replica_statistics
from quintain.input.diagnosis import pipeline_inspection, random_watch
from quintain.optimization import ema, gradient_accumulation, norms, optimizer_wrapper
from quintain.settings import config_definitions as cfg

COUNTED_ITEMS: Final = ("examples", "tokens")
_MODEL: Final = "trained_model"
"""Begin of the names in a checkpoint of what the model holds besides its own variables."""

ListMetrics = Callable[[], Sequence[keras.metrics.Metric]]


class TrainerState:
    """State of a trainer of one task or of several.

    Step, loop record, timing and counts are of the run. The average of the weights, accumulated
    gradients, norms and the statistics of replicas are of a model and its optimizer, which `follow`
    takes up: once, or at every stage of a run whose model grows.
    """

    def __init__(
        self,
        trainer: orbit.StandardTrainer,
        config: cfg.TrainerConfig,
        runtime: cfg.RuntimeConfig,
        *,
        count_used: Callable[[], Mapping[str, int]],
        list_loop_metrics: ListMetrics,
        get_probe_dataset: Callable[[], tf.data.Dataset] | None = None,
    ) -> None:
        """Creates what is of the run, in the scope of the strategy.

        Args:
            trainer: Whose state it is.
            config: What the trainer is to do.
            runtime: On what devices.
            count_used: Returns the batches that the run has trained on so far, by name of the data.
            list_loop_metrics: Returns the metrics that a training loop adds up.
            get_probe_dataset: Builds the training pipeline anew, to measure its stages. None if it
                can't be built.
        """
        self._config = config
        self._runtime = runtime
        self.strategy = tf.distribute.get_strategy()
        self.global_step = orbit.utils.create_global_step()
        self.loop_position = tf.Variable(0, dtype=tf.int64, trainable=False, name="loop_position")
        self.record = loop_record.LoopRecord(trainer, self.global_step, count_used)
        self.timing = loop_timing.LoopTiming(get_probe_dataset)
        self.random_watch = random_watch.RandomWatch()
        self._list_loop_metrics = list_loop_metrics
        self._loop_state = checkpoint_state.VariablesState(self._list_loop_variables)
        self._item_counts = {name: _create_counter(name) for name in COUNTED_ITEMS}
        self.average: ema.ExponentialMovingAverage | None = None
        self.accumulation: gradient_accumulation.GradientAccumulation | None = None
        self._model: Any = None
        self._optimizer: Any = None
        self._norms: norms.NormSums | None = None
        self._statistics: replica_statistics.ReplicaStatistics | None = None
        self._snapshot: state_snapshot.StateSnapshot | None = None

    def follow(self, model: Any, optimizer: Any, *, is_built: bool, is_training: bool) -> None:
        """Takes up a model and its optimizer, if it has one, whose slots are created here.

        Raises:
            ConfigError: If the optimizer can't measure the norms that the config asks for.
        """
        self._model, self._optimizer = model, optimizer
        self.average = optimizer_wrapper.find_wrapper(optimizer, ema.ExponentialMovingAverage)
        self.accumulation = optimizer_wrapper.find_wrapper(
            optimizer, gradient_accumulation.GradientAccumulation
        )
        self._norms = trainer_setup.track_norms(self._config, optimizer) if is_training else None
        if is_built and optimizer is not None:
            self.restart_average()
            optimizer.build(model.trainable_variables)
        if is_training:
            distribution.pack_gradients(self.strategy, self._runtime, model)
        if self._runtime.elastic:
            return  # Every step makes statistics and seeds the same on all replicas.
        self._statistics = replica_statistics.ReplicaStatistics(self.strategy, model, self.average)
        if is_training:
            replica_seeds.make_distinct(model, self.strategy)

    @property
    def step(self) -> int:
        """Training steps done."""
        return int(self.global_step.numpy())

    @property
    def elements_per_step(self) -> int:
        """Batches of a step: more than 1 where gradients are accumulated, or there are shards."""
        if self._runtime.elastic:
            return self._runtime.elastic_shards
        return 1 if self.accumulation is None else self.accumulation.num_batches

    def restart_average(self) -> None:
        """Makes the average of the weights start at what they are now, if there is one."""
        if self.average is not None:
            self.average.shadow_copy(self._model)

    def use_average(self, is_used: bool) -> None:
        """Puts the average of the weights in their place if there is one, or the weights back."""
        if self.average is not None and self.average.is_swapped != is_used:
            self.average.swap_weights()

    def begin_evaluation(self, checkpoint: tf.train.Checkpoint) -> None:
        """Puts the averages in place, and notes the state that the evaluation may change."""
        self.use_average(True)
        self._snapshot = state_snapshot.StateSnapshot(checkpoint)

    def restore_snapshot(self) -> None:
        """Puts the state back that was there when the evaluation began, once."""
        if self._snapshot is not None:
            self._snapshot.restore()
        self._snapshot = None

    def end_evaluation(self) -> None:
        """Puts back the state, and the weights in place of their averages."""
        self.restore_snapshot()
        self.use_average(False)

    def begin_loop(self) -> None:
        """Starts the clock of a loop, notes where it begins, and resets its metrics.

        A loop that goes on after an interruption adds to what it had when it was interrupted.
        """
        if not self.loop_position.numpy():
            model_metrics.reset(self._list_loop_metrics())
        self.timing.begin_loop(self.step)
        self.record.begin_loop()

    def count_items(self, counts: Mapping[str, tf.Tensor]) -> None:
        """Adds one replica's counts, by the names in `COUNTED_ITEMS`; part of a step."""
        for name, count in counts.items():
            self._item_counts[name].assign_add(tf.cast(count, tf.int64))

    def list_counters(self) -> list[tf.Variable]:
        """Returns the variables of `count_items`."""
        return list(self._item_counts.values())

    def end_loop(self) -> dict[str, Any]:
        """Stops the clock, and resets what was counted.

        Returns:
            `learning_rate`, of the next update; the times of the loop, see `LoopTiming.end_loop`;
            `examples_per_second` and `tokens_per_second` where the task counts them; and the norms,
            where they are measured.
        """
        self.loop_position.assign(0)
        schedule = getattr(self._optimizer, "learning_rate_schedule", None)
        logs = {
            "learning_rate": (
                self._optimizer.learning_rate
                if schedule is None
                else schedule(self._optimizer.iterations)
            ),
            **self.timing.end_loop(self.step),
            **self.timing.read_rates(self._item_counts),
        }
        return logs if self._norms is None else logs | self._norms.take_means()

    def synchronize(self) -> None:
        """Makes the statistics that replicas gathered the same on all of them."""
        if self._statistics is not None:
            self._statistics.synchronize()

    def create_position(
        self,
        dataset: Any,
        get_iterator: Callable[[], Any],
        restart: Callable[[], Any],
        *,
        is_external: bool,
        name: str = loop_record.SINGLE,
    ) -> checkpoint_state.DataPosition:
        """Returns the part of a checkpoint that says where training stands in some data."""
        inspection = pipeline_inspection.inspect(dataset)
        if not is_external:
            inspection.warn(f"the training data of {name!r}" if name else "the training data")
        return checkpoint_state.DataPosition(
            get_iterator,
            functools.partial(self.record.count_drawn, name),
            restart,
            inspection=inspection,
            is_external=is_external,
        )

    def create_checkpoint(
        self,
        tasks: Mapping[str, base_task.Task],
        positions: Mapping[str, checkpoint_state.DataPosition],
        *,
        list_metrics: ListMetrics,
        is_training: bool,
    ) -> tf.train.Checkpoint:
        """Returns everything that a run needs to go on as if it had not been stopped.

        Args:
            tasks: The tasks by their names; an empty name is left out of the names of variables.
            positions: Where training stands in its data, by the name in the checkpoint. Without
                any, loops always start from their beginning.
            list_metrics: Returns the metrics that are not the tasks' own, though they may hold
                them.
            is_training: Whether the run trains.
        """
        state_cls = cluster_checkpoints.PerWorkerState
        if self._runtime.elastic:
            state_cls = cluster_checkpoints.SharedState
        per_worker = functools.partial(state_cls, self.strategy)
        items = checkpoint_fit.model_items(self._model)
        if self._optimizer is not None:
            items["optimizer"] = self._optimizer
        list_known = functools.partial(self._list_known, dict(items), list_metrics)
        if is_training:
            items["recovery"] = self.record.state
            items["host_random_state"] = per_worker(checkpoint_state.HostRandomState(), warns=True)
        for name, position in positions.items():
            items[name] = per_worker(position, position.skip_batches)
        if positions:
            items["loop_state"] = per_worker(self._loop_state)
        return tf.train.Checkpoint(
            global_step=self.global_step,
            random_state=per_worker(checkpoint_state.RandomState(self._model)),
            **task_state.checkpoint_items({_MODEL: self._model, **tasks}, list_known, per_worker),
            **items,
        )

    def _list_known(self, items: Mapping[str, Any], list_metrics: ListMetrics) -> list[Any]:
        """Returns the variables of the model, and others that a task holds but that are saved."""
        root = tf.train.Checkpoint(**items)  # A view does not keep it.
        parts = tf.train.TrackableView(root).descendants()
        return [
            *(part for part in parts if isinstance(part, tf.Variable | keras.Variable)),
            *self._model.variables,
            *(variable for metric in list_metrics() for variable in metric.variables),
        ]

    def _list_loop_variables(self) -> list[Any]:
        """Returns the steps that an interrupted loop had left, and what it has added up so far."""
        metrics = self._list_loop_metrics()
        return [self.loop_position, *(part for metric in metrics for part in metric.variables)]


def _create_counter(name: str) -> tf.Variable:
    return tf.Variable(
        0,
        dtype=tf.int64,
        trainable=False,
        name=f"num_{name}",
        synchronization=tf.VariableSynchronization.ON_READ,
        aggregation=tf.VariableAggregation.SUM,
    )
