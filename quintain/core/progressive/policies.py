"""`ProgressivePolicy`: which model, optimizer and data belong to which stage of a training."""

import abc
import logging
from collections.abc import Mapping
from typing import Any

import keras
import tensorflow as tf

from quintain import errors
from quintain.core import base_task
from quintain.core.loop import dataset_distribution
from quintain.core.progressive import configs

ProgressiveConfig = configs.ProgressiveConfig

logger = logging.getLogger(__name__)


class ProgressivePolicy(metaclass=abc.ABCMeta):
    """Parts of a training in each of its stages: model, optimizer and data.

    Override the abstract methods, and call `__init__` in the scope of the strategy when they can be
    called. Often one class is a `Task` and the policy at the same time. A policy that is not, has
    to override `task`.
    """

    def __init__(self) -> None:
        """Builds model and optimizer of the first stage."""
        self._stage_id = tf.Variable(
            0,
            trainable=False,
            dtype=tf.int64,
            name="stage_id",
            aggregation=tf.VariableAggregation.ONLY_FIRST_REPLICA,
        )
        self._cur_train_dataset: dataset_distribution.Dataset | None = None
        self._cur_eval_dataset: dataset_distribution.Dataset | None = None
        self._cur_optimizer = self.get_optimizer(0)
        self._cur_model = self.get_model(0, None)

    @abc.abstractmethod
    def num_stages(self) -> int:
        """Returns the number of stages, at least 1."""

    @abc.abstractmethod
    def num_steps(self, stage_id: int) -> int:
        """Returns the steps of a stage. That of the last does not matter: it lasts to the end."""

    @abc.abstractmethod
    def get_model(self, stage_id: int, old_model: keras.Model | None = None) -> keras.Model:
        """Returns the model of a stage, in the scope of the strategy.

        Args:
            stage_id: The stage, counted from 0.
            old_model: The trained model of the stage before. None where there is none, or where all
                weights are about to be restored from a checkpoint.
        """

    @abc.abstractmethod
    def get_optimizer(self, stage_id: int) -> keras.optimizers.Optimizer:
        """Returns a new optimizer for a stage, in the scope of the strategy."""

    @abc.abstractmethod
    def get_train_dataset(self, stage_id: int) -> dataset_distribution.Dataset:
        """Returns the training data of a stage, distributed over the replicas.

        The same object as for the stage before goes on where it is.
        """

    @abc.abstractmethod
    def get_eval_dataset(self, stage_id: int) -> dataset_distribution.Dataset:
        """Returns the evaluation data of a stage, distributed over the replicas."""

    @property
    def task(self) -> base_task.Task:
        """The task of the current stage.

        Raises:
            ConfigError: If the policy is no task, and does not override this.
        """
        if isinstance(self, base_task.Task):
            return self
        raise errors.ConfigError(
            f"{type(self).__name__} is no Task. Override `ProgressivePolicy.task`, or derive the "
            "class from the task's class as well."
        )

    @property
    def cur_stage_id(self) -> int:
        """The current stage, counted from 0."""
        return int(self._stage_id.numpy())

    @property
    def cur_model(self) -> keras.Model:
        """The model of the current stage."""
        return self._cur_model

    @property
    def cur_optimizer(self) -> keras.optimizers.Optimizer:
        """The optimizer of the current stage."""
        return self._cur_optimizer

    @property
    def cur_train_dataset(self) -> dataset_distribution.Dataset:
        """The training data of the current stage, built when it is first asked for."""
        if self._cur_train_dataset is None:
            self._cur_train_dataset = self.get_train_dataset(self.cur_stage_id)
        return self._cur_train_dataset

    @property
    def cur_eval_dataset(self) -> dataset_distribution.Dataset:
        """The evaluation data of the current stage, built when it is first asked for."""
        if self._cur_eval_dataset is None:
            self._cur_eval_dataset = self.get_eval_dataset(self.cur_stage_id)
        return self._cur_eval_dataset

    @property
    def is_last_stage(self) -> bool:
        """True if the current stage is the last."""
        return self.cur_stage_id >= self.num_stages() - 1

    @property
    def cur_checkpoint_items(self) -> Mapping[str, Any]:
        """Checkpoint items of the policy: stage, model and optimizer."""
        return {
            "stage_id": self._stage_id,
            "model": self._cur_model,
            "optimizer": self._cur_optimizer,
        }

    def compute_stage_id(self, global_step: int) -> int:
        """Returns the stage to which the step after `global_step` belongs."""
        for stage_id in range(self.num_stages() - 1):
            global_step -= self.num_steps(stage_id)
            if global_step < 0:
                return stage_id
        return self.num_stages() - 1

    def compute_start_step(self, stage_id: int) -> int:
        """Returns the steps before a stage."""
        return sum(self.num_steps(earlier) for earlier in range(stage_id))

    def count_steps_left(self, global_step: int) -> int | None:
        """Returns the steps from `global_step` to the end of its stage; None for the last stage."""
        stage_id = self.compute_stage_id(global_step)
        if stage_id == self.num_stages() - 1:
            return None
        return self.compute_start_step(stage_id + 1) - global_step

    def is_stage_advancing(self, global_step: int) -> bool:
        """Returns whether the step after `global_step` belongs to another stage."""
        return self.compute_stage_id(global_step) != self.cur_stage_id

    def update_pt_stage(self, global_step: int, pass_old_model: bool = True) -> None:
        """Enters the stage of a step: builds its optimizer and model, and forgets the old data.

        Args:
            global_step: Steps done.
            pass_old_model: Whether the new model starts from the current one. False if its weights
                are about to be restored.
        """
        former, stage_id = self.cur_stage_id, self.compute_stage_id(global_step)
        logger.info("Stage %d of the training follows stage %d.", stage_id, former)
        self._stage_id.assign(stage_id)
        self._cur_train_dataset = None
        self._cur_eval_dataset = None
        self._cur_optimizer = self.get_optimizer(stage_id)
        old_model = self._cur_model if pass_old_model else None
        self._cur_model = self.get_model(stage_id, old_model)
