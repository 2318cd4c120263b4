"""`StagedPolicy`: a policy for any task, from the stages that a config lists."""

from typing import Any

import keras
import tensorflow as tf
from typing_extensions import override

from quintain import errors
from quintain.checkpoints import checkpoint_fit
from quintain.core import base_task, task_factory
from quintain.core.loop import dataset_distribution
from quintain.core.progressive import configs, policies
from quintain.core.steps import task_checks
from quintain.optimization.schedules import learning_rate_scale
from quintain.settings import config_definitions as cfg


class OffsetSchedule(keras.optimizers.schedules.LearningRateSchedule):
    """A schedule that starts at a later step."""

    def __init__(
        self, schedule: keras.optimizers.schedules.LearningRateSchedule, offset: int
    ) -> None:
        """Stores the schedule and the number of steps that come before.

        Args:
            schedule: The schedule.
            offset: Step of `schedule` that is step 0 of this one.
        """
        super().__init__()
        self.schedule = schedule
        self.offset = offset

    @override
    def __call__(self, step: Any) -> Any:
        """Returns the rate at `step`, which is `offset` steps later in the wrapped schedule."""
        return self.schedule(tf.cast(step, tf.int64) + self.offset)

    @override
    def get_config(self) -> dict[str, Any]:
        return {"schedule": self.schedule, "offset": self.offset}


class StagedPolicy(policies.ProgressivePolicy):
    """Builds each stage from the experiment and what the stage changes in it."""

    def __init__(self, params: cfg.ExperimentConfig, model_dir: str = "") -> None:
        """Builds model and optimizer of the first stage.

        Args:
            params: The experiment; its trainer is a `ProgressiveTrainerConfig` with stages.
            model_dir: Directory for what the tasks write.

        Raises:
            ConfigError: If there are no stages, a stage sets a field that there is not, or training
                should be differentially private.
        """
        self._params = params
        self._model_dir = model_dir
        self._strategy = tf.distribute.get_strategy()
        self._stages = get_stages(params)
        self._tasks: dict[int, base_task.Task] = {}
        for stage_id in range(len(self._stages)):  # A mistake must not show up hours later.
            if build_task_config(params, stage_id).differential_privacy_config is not None:
                raise errors.ConfigError(
                    "task.differential_privacy_config: training in stages can't be differentially "
                    "private, because no guarantee is computed over stages of different data. "
                    "Train without stages."
                )
            self._build_optimizer_config(stage_id)
        super().__init__()

    @property
    @override
    def task(self) -> base_task.Task:
        return self._get_task(self.cur_stage_id)

    @override
    def num_stages(self) -> int:
        return len(self._stages)

    @override
    def num_steps(self, stage_id: int) -> int:
        """Returns the steps of a stage; of the last, those that are left."""
        steps = self._stages[stage_id].num_steps
        if steps is not None:
            return steps
        return max(self._params.trainer.train_steps - self.compute_start_step(stage_id), 0)

    @override
    def get_model(self, stage_id: int, old_model: keras.Model | None = None) -> keras.Model:
        """Builds the model of a stage, which starts from `old_model` as the task says."""
        task = self._get_task(stage_id)
        model = task.build_model()
        task_checks.check_model(task, model)
        if old_model is not None:
            task.grow_model(old_model, model)
        return model

    @override
    def get_optimizer(self, stage_id: int) -> keras.optimizers.Optimizer:
        """Builds the optimizer of a stage; its learning rate goes on, or starts anew."""
        optimizer = self._get_task(stage_id).create_optimizer(
            self._build_optimizer_config(stage_id), self._params.runtime
        )
        offset = self.compute_start_step(stage_id)
        if offset and self._stages[stage_id].continues_schedule:
            inner = learning_rate_scale.find_inner(optimizer)
            schedule = inner._learning_rate
            if isinstance(schedule, keras.optimizers.schedules.LearningRateSchedule):
                inner.learning_rate = OffsetSchedule(schedule, offset)
        return optimizer

    @override
    def get_train_dataset(self, stage_id: int) -> dataset_distribution.Dataset:
        task = self._get_task(stage_id)
        return self._build_dataset(task, task.task_config.train_data)

    @override
    def get_eval_dataset(self, stage_id: int) -> dataset_distribution.Dataset:
        task = self._get_task(stage_id)
        return self._build_dataset(task, task.task_config.validation_data)

    def _get_task(self, stage_id: int) -> base_task.Task:
        if stage_id not in self._tasks:
            self._tasks[stage_id] = task_factory.get_task(
                build_task_config(self._params, stage_id), logging_dir=self._model_dir
            )
        return self._tasks[stage_id]

    def _build_dataset(
        self, task: base_task.Task, params: cfg.DataConfig
    ) -> dataset_distribution.Dataset:
        return dataset_distribution.build_task_dataset(
            self._strategy, task, params, self._params.runtime
        )

    def _build_optimizer_config(self, stage_id: int) -> Any:
        return _override(
            self._params.trainer.optimizer_config,
            self._stages[stage_id].optimizer_config,
            f"trainer.progressive.stages[{stage_id}].optimizer_config",
        )


def get_stages(params: cfg.ExperimentConfig) -> tuple[configs.StageConfig, ...]:
    """Returns the stages of an experiment.

    Raises:
        ConfigError: If there are none.
    """
    trainer = params.trainer
    progressive = (
        trainer.progressive if isinstance(trainer, configs.ProgressiveTrainerConfig) else None
    )
    if progressive is None or not progressive.stages:
        raise errors.ConfigError(
            "trainer.progressive.stages: missing; list the stages, or use a task that is a "
            "ProgressivePolicy."
        )
    return tuple(progressive.stages)


def find_task_config(params: cfg.ExperimentConfig, path: str) -> cfg.TaskConfig:
    """Returns the task of the stage that a checkpoint is of.

    Raises:
        CheckpointError: If the checkpoint does not tell its step.
    """
    trainer = params.trainer
    if not isinstance(trainer, configs.ProgressiveTrainerConfig) or trainer.progressive is None:
        return params.task
    step, stage_id = checkpoint_fit.read_step(path), 0
    for stage in trainer.progressive.stages[:-1]:
        step -= stage.num_steps or 0
        if step < 0:
            break
        stage_id += 1
    return build_task_config(params, stage_id) if trainer.progressive.stages else params.task


def build_task_config(params: cfg.ExperimentConfig, stage_id: int) -> cfg.TaskConfig:
    """Returns the task of a stage.

    Raises:
        ConfigError: If the stage sets a field that there is not.
    """
    stage = get_stages(params)[stage_id]
    return _override(params.task, stage.task, f"trainer.progressive.stages[{stage_id}].task")


def _override(config: Any, changes: Any, path: str) -> Any:
    try:
        return config.replace(**changes.as_dict())
    except errors.ConfigError as error:
        raise errors.ConfigError(f"{path}: {error}") from error
