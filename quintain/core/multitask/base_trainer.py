"""`MultiTaskBaseTrainer`: every step trains on one batch of each task."""

import functools
from collections.abc import Callable, Mapping
from typing import Any

import keras
import tensorflow as tf
from typing_extensions import override

from quintain import orbit
from quintain.config import gin_io
from quintain.core import base_task
from quintain.core.loop import (
    dataset_distribution,
    stateful_trainer,
    trainer_setup,
    trainer_state,
)
from quintain.core.multitask import base_model
from quintain.core.multitask import multitask as multitask_lib
from quintain.core.steps import model_metrics, task_checks
from quintain.distribute import distribution, replica_steps
from quintain.orbit import iterators
from quintain.settings import config_definitions as cfg

LOSS_NAME = "training_loss"
"""Key of a mean training loss in the logs: of each task, and of all together."""


@gin_io.configurable
class MultiTaskBaseTrainer(stateful_trainer.StatefulTrainer):
    """Trains the model of several tasks on the weighted sum of their losses.

    Build it inside the scope of the strategy. The training data of every task must be endless;
    training ends with the first that is not.
    """

    def __init__(
        self,
        multi_task: multitask_lib.MultiTask,
        multi_task_model: keras.Model | base_model.MultiTaskBaseModel,
        optimizer: keras.optimizers.Optimizer,
        trainer_options: orbit.StandardTrainerOptions | None = None,
        train_datasets: Mapping[str, dataset_distribution.Dataset] | None = None,
        *,
        runtime: cfg.RuntimeConfig | None = None,
        config: cfg.TrainerConfig | None = None,
    ) -> None:
        """Builds the data of all tasks; nothing is computed yet.

        Args:
            multi_task: The tasks.
            multi_task_model: The model with a part for every task, or one that all of them share.
                Parts without variables are built from the first batch.
            optimizer: The optimizer; its slots are created here.
            trainer_options: How the loop runs.
            train_datasets: Training data of every task, instead of `Task.build_inputs`.
            runtime: Seed, compilation and threads. None takes the defaults.
            config: What is measured; `trainer_options` say how loops run. None takes the defaults.

        Raises:
            ConfigError: Under a parameter-server strategy, or if the optimizer can't measure the
                norms that `config` asks for.
        """
        distribution.check_is_synchronous(tf.distribute.get_strategy(), "training several tasks")
        self._multi_task = multi_task
        self._model = multi_task_model
        self._optimizer = optimizer
        self._runtime = runtime or cfg.RuntimeConfig()
        self._state = trainer_state.TrainerState(
            self,
            config or cfg.TrainerConfig(),
            self._runtime,
            count_used=self._count_used,
            list_loop_metrics=self._list_loop_metrics,
        )
        replica_steps.check_kernels(self._runtime)
        self._training_losses = {
            name: keras.metrics.Mean(LOSS_NAME, dtype="float32")
            for name in (multitask_lib.TOTAL_LOSS, *multi_task.tasks)
        }
        self._training_metrics = {
            name: build_metrics(task, multi_task_model, name, training=True)
            for name, task in multi_task.tasks.items()
        }
        self._is_train_data_built = train_datasets is None
        if train_datasets is None:
            train_datasets = {name: self._build_dataset(name) for name in multi_task.tasks}
        super().__init__(dict(train_datasets), trainer_options or orbit.StandardTrainerOptions())
        self._build_unbuilt_models()
        self._state.follow(
            multi_task_model,
            optimizer,
            is_built=all(
                base_model.get_sub_model(multi_task_model, name).built for name in multi_task.tasks
            ),
            is_training=bool(train_datasets),
        )
        self._checkpoint = self._create_checkpoint()

    def _build_dataset(self, task_name: str) -> dataset_distribution.Dataset:
        task = self._multi_task.tasks[task_name]
        return dataset_distribution.build_task_dataset(
            self.strategy, task, task.task_config.train_data, self._runtime
        )

    def _build_unbuilt_models(self) -> None:
        """Gives models without variables theirs, from the first batch of their task."""
        model, tasks = self._model, self._multi_task.tasks
        datasets = dict(self.train_dataset)
        for name in datasets:
            params = tasks[name].task_config.train_data
            is_read_here = self._is_train_data_built and not params.enable_tf_data_service
            sub_model = base_model.get_sub_model(model, name)
            if is_read_here and trainer_setup.needs_batch(sub_model):
                # A second iterator of the same dataset would shuffle in another order.
                datasets[name] = self._build_dataset(name)
        build_from_batches(model, tasks, datasets, self.strategy)

    @property
    def multi_task(self) -> multitask_lib.MultiTask:
        """The tasks."""
        return self._multi_task

    @property
    def multi_task_model(self) -> keras.Model | base_model.MultiTaskBaseModel:
        """The model of all tasks."""
        return self._model

    @property
    def training_losses(self) -> dict[str, keras.metrics.Mean]:
        """Mean loss of the running loop, for each task and for all together (`total_loss`)."""
        return self._training_losses

    @property
    def train_loss(self) -> keras.metrics.Mean:
        """Mean of the loss that the running loop minimises."""
        return self._training_losses[multitask_lib.TOTAL_LOSS]

    @property
    def training_metrics(self) -> dict[str, list[keras.metrics.Metric]]:
        """Training metrics of each task."""
        return self._training_metrics

    def initialize(self) -> None:
        """Gives a new run its initial weights; called when there is no checkpoint."""
        self._multi_task.initialize(self._model)
        self._state.restart_average()

    @override
    def train_loop_begin(self) -> None:
        self._state.begin_loop()

    def train_step(self, iterator_map: Mapping[str, Any]) -> None:
        """Trains on the next batch of every task."""
        joint_train_step = replica_steps.compile_train_step(
            self._multi_task.joint_train_step, self._runtime
        )

        def step_fn(inputs: Mapping[str, Any]) -> None:
            with wait_for(inputs):
                losses = joint_train_step(
                    inputs,
                    multi_task_model=self._model,
                    optimizer=self._optimizer,
                    task_metrics=self._training_metrics,
                )
                for name, loss in losses.items():
                    self._training_losses[name].update_state(loss)
                for name, task in self._multi_task.tasks.items():
                    self._state.count_items(task.count_items(inputs[name]))

        self._run_step(
            step_fn,
            lambda: {name: next(iterator) for name, iterator in iterator_map.items()},
            [self.global_step],
        )

    def _run_step(
        self,
        step_fn: Callable[[Any], None],
        get_inputs: Callable[[], Any],
        step_counters: list[tf.Variable],
    ) -> None:
        """Runs one step on every replica; with accumulation of gradients, on several batches.

        The last batch updates the weights, and adds 1 to the counters.
        """

        def last_step_fn(inputs: Any) -> None:
            step_fn(inputs)
            with wait_for(inputs):
                for counter in step_counters:
                    counter.assign_add(1)

        take = functools.partial(self._state.timing.measure_next, get_inputs)
        run = functools.partial(replica_steps.run, self.strategy, self._runtime)
        if self._state.accumulation is not None:
            self._state.accumulation.accumulate(lambda: run(step_fn, take()))
        run(last_step_fn, take())
        self._state.random_watch.check_traced()

    @override
    def train_loop_end(self) -> dict[str, Any]:
        """Collects the means over the loop.

        Returns:
            Mapping with the loss and the metrics of every task under its name, those of all tasks
            under `total_loss` and, for those who look for one number, `training_loss`;
            `learning_rate`, and the times, rates and norms that a `Trainer` has.
        """
        logs: dict[str, Any] = {}
        for name, loss in self._training_losses.items():
            logs[name] = model_metrics.read([loss, *self._all_metrics(name)])
        logs[LOSS_NAME] = logs[multitask_lib.TOTAL_LOSS][LOSS_NAME]
        return logs | self._state.end_loop()

    def _list_loop_metrics(self) -> list[keras.metrics.Metric]:
        losses = self._training_losses.items()
        return [one for name, loss in losses for one in (loss, *self._all_metrics(name))]

    def _all_metrics(self, name: str) -> list[keras.metrics.Metric]:
        """Returns the metrics of a task and those its model was compiled with."""
        if name not in self._training_metrics:
            return []
        model = base_model.get_sub_model(self._model, name)
        return [*self._training_metrics[name], *model_metrics.compiled_parts(model)]

    def _get_iterator(self, task_name: str) -> Any:
        return self.ensure_train_iterator()[task_name]

    def _count_batches(self, task_name: str) -> int:
        del task_name
        return self._state.step * self.elements_per_step

    def _count_used(self) -> dict[str, int]:
        return {name: self._count_batches(name) for name in self.train_dataset}

    def _restart_train_data(self, task_name: str) -> Any:
        """Returns an iterator that stands at the beginning of the data of a task."""
        started = self.ensure_train_iterator()
        if self.loop_record.has_begun:
            if self._is_train_data_built:
                # A second iterator of the same dataset would shuffle in another order.
                self.train_dataset[task_name] = self._build_dataset(task_name)
            started[task_name] = iterators.create(self.train_dataset[task_name])
        return started[task_name]

    def _create_checkpoint(self) -> tf.train.Checkpoint:
        positions = {
            f"data_position_{name}": self._state.create_position(
                dataset,
                functools.partial(self._get_iterator, name),
                functools.partial(self._restart_train_data, name),
                is_external=(
                    self._is_train_data_built
                    and self._multi_task.tasks[name].task_config.train_data.enable_tf_data_service
                ),
                name=name,
            )
            for name, dataset in self.train_dataset.items()
        }
        return self._state.create_checkpoint(
            self._multi_task.tasks,
            positions,
            list_metrics=lambda: [
                metric for metrics in self._training_metrics.values() for metric in metrics
            ],
            is_training=bool(self.train_dataset),
        )


def build_metrics(
    task: base_task.Task,
    model: keras.Model | base_model.MultiTaskBaseModel,
    task_name: str,
    *,
    training: bool,
) -> list[keras.metrics.Metric]:
    """Returns the metrics of a task, and those of its model where the model is its own."""
    is_own = isinstance(model, base_model.MultiTaskBaseModel)
    own_model = model.sub_tasks[task_name] if is_own else None
    return task_checks.build_metrics(task, own_model, training=training)


def build_from_batches(
    model: keras.Model | base_model.MultiTaskBaseModel,
    tasks: Mapping[str, base_task.Task],
    datasets: Mapping[str, dataset_distribution.Dataset],
    strategy: tf.distribute.Strategy,
) -> None:
    """Makes the variables that models have only after the first batch of their task."""
    for name, task in tasks.items():
        sub_model = base_model.get_sub_model(model, name)
        if name in datasets and trainer_setup.needs_batch(sub_model):
            trainer_setup.build_from_batch(sub_model, task, datasets[name], strategy)


def wait_for(inputs: Any) -> Any:
    """Returns a context in which nothing starts before `inputs` are there.

    So a step whose data has ended changes nothing: not the step counter, not a random state.
    """
    leaves = tf.nest.flatten(inputs, expand_composites=True)
    return tf.control_dependencies([leaf for leaf in leaves if tf.is_tensor(leaf)])
