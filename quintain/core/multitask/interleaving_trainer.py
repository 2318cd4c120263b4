"""`MultiTaskInterleavingTrainer`: every step trains on a batch of one task."""

from collections.abc import Callable, Mapping
from typing import Any

import keras
import tensorflow as tf
from typing_extensions import override

from quintain import errors, orbit
from quintain.config import gin_io
from quintain.core.loop import dataset_distribution
from quintain.core.multitask import base_model, base_trainer, multitask
from quintain.core.multitask import task_sampler as task_sampler_lib
from quintain.distribute import replica_steps
from quintain.settings import config_definitions as cfg


@gin_io.configurable
class MultiTaskInterleavingTrainer(base_trainer.MultiTaskBaseTrainer):
    """Trains on one task a step, drawn from the distribution of a sampler.

    Which task a step draws depends on the seed and the step alone, so that a resumed run draws the
    same ones. A step is that of `Task.train_step`.
    """

    def __init__(
        self,
        multi_task: multitask.MultiTask,
        multi_task_model: keras.Model | base_model.MultiTaskBaseModel,
        optimizer: keras.optimizers.Optimizer,
        task_sampler: task_sampler_lib.TaskSampler,
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
            optimizer: The optimizer; its slots are created here.
            task_sampler: Distribution of the tasks, in the order of `multi_task.tasks`.
            trainer_options: How the loop runs.
            train_datasets: Training data of every task, instead of `Task.build_inputs`.
            runtime: Seed, also of the choice of tasks, compilation and threads. None takes the
                defaults.
            config: What is measured. None takes the defaults.

        Raises:
            ConfigError: If the sampler is for other tasks.
        """
        if list(task_sampler.task_weights) != list(multi_task.tasks):
            raise errors.ConfigError(
                f"task_sampler: got weights of {', '.join(task_sampler.task_weights)}, expected "
                f"those of the tasks, in their order: {', '.join(multi_task.tasks)}."
            )
        self._task_sampler = task_sampler
        self._draw_seed = (runtime or cfg.RuntimeConfig()).seed or 0
        self._task_step_counters = {
            name: orbit.utils.create_global_step() for name in multi_task.tasks
        }
        super().__init__(
            multi_task,
            multi_task_model,
            optimizer,
            trainer_options,
            train_datasets,
            runtime=runtime,
            config=config,
        )

    def task_step_counter(self, name: str) -> tf.Variable:
        """Returns the number of steps that trained on a task, a scalar int64 variable."""
        return self._task_step_counters[name]

    @override
    def train_step(self, iterator_map: Mapping[str, Any]) -> None:
        """Trains on the next batch of the task that this step draws."""
        index = task_sampler_lib.draw_task(self._task_sampler, self._draw_seed, self.global_step)
        tf.switch_case(
            index,
            [self._create_task_step(name, iterator_map[name]) for name in self._multi_task.tasks],
        )

    @override
    def train_loop_end(self) -> dict[str, Any]:
        """Collects the means over the loop.

        Returns:
            As in joint training, but without `total_loss`, since there is no sum of losses:
            `training_loss` is the mean over the steps, each with the loss of its task. A task that
            no step of the loop drew has only `steps`, which every task has: the steps that have
            trained on it since the start of the run.
        """
        drawn = {
            name: float(tf.convert_to_tensor(loss.count)) > 0
            for name, loss in self._training_losses.items()
        }
        logs = super().train_loop_end()
        del logs[multitask.TOTAL_LOSS]
        for name in self._multi_task.tasks:
            logs[name] = logs[name] if drawn[name] else {}
            logs[name]["steps"] = self.task_step_counter(name).read_value()
        return logs

    def _create_task_step(self, name: str, iterator: Any) -> Callable[[], None]:
        task = self._multi_task.tasks[name]
        model = base_model.get_sub_model(self._model, name)
        train_step = replica_steps.compile_train_step(task.train_step, self._runtime)

        def step_fn(inputs: Any) -> None:
            with base_trainer.wait_for(inputs):
                logs = train_step(
                    inputs,
                    model=model,
                    optimizer=self._optimizer,
                    metrics=self._training_metrics[name],
                )
                count = logs.get(task.loss_count, 1.0)
                for mean in (self._training_losses[name], self.train_loss):
                    mean.update_state(logs[task.loss], sample_weight=count)
                self._state.count_items(task.count_items(inputs))

        step_counters = [self._task_step_counters[name], self.global_step]
        return lambda: self._run_step(step_fn, lambda: next(iterator), step_counters)

    @override
    def _count_batches(self, task_name: str) -> int:
        return int(self._task_step_counters[task_name].numpy()) * self.elements_per_step

    @override
    def _create_checkpoint(self) -> tf.train.Checkpoint:
        checkpoint = super()._create_checkpoint()
        for name, counter in self._task_step_counters.items():
            setattr(checkpoint, f"task_steps_{name}", counter)
        return checkpoint
