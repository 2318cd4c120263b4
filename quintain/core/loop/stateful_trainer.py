"""Base class of the trainers of one task and of several."""

import abc
import contextlib
from typing import Any

import keras
import tensorflow as tf
from typing_extensions import override

from quintain import orbit
from quintain.core.loop import loop_record, trainer_state
from quintain.core.steps import autograph
from quintain.optimization import ema
from quintain.orbit import cluster


class StatefulTrainer(orbit.StandardTrainer):
    """A trainer whose runs can be saved, resumed and taken back.

    Its subclasses set these attributes when they are built.
    """

    _model: Any
    _optimizer: keras.optimizers.Optimizer
    _state: trainer_state.TrainerState
    _checkpoint: tf.train.Checkpoint

    @property
    def strategy(self) -> tf.distribute.Strategy:
        """The strategy in whose scope the trainer was built."""
        return self._state.strategy

    @property
    def model(self) -> Any:
        """The model."""
        return self._model

    @property
    def optimizer(self) -> keras.optimizers.Optimizer:
        """The optimizer."""
        return self._optimizer

    @property
    @abc.abstractmethod
    def train_loss(self) -> keras.metrics.Mean:
        """Mean of the loss that the running loop minimises."""

    @abc.abstractmethod
    def initialize(self) -> None:
        """Gives a new run its initial weights; called when there is no checkpoint."""

    @property
    def average(self) -> ema.ExponentialMovingAverage | None:
        """The optimizer's averages of the weights, if it keeps any."""
        return self._state.average

    @property
    def global_step(self) -> tf.Variable:
        """Scalar int64: training steps done."""
        return self._state.global_step

    @property
    def loop_position(self) -> tf.Variable:
        """Scalar int64: steps that an interrupted loop had left; 0 between two loops."""
        return self._state.loop_position

    @property
    def loop_record(self) -> loop_record.LoopRecord:
        """First step and batches of the running loop, and the run's recoveries."""
        return self._state.record

    @property
    def checkpoint(self) -> tf.train.Checkpoint:
        """Step, model, optimizer, data position, random state and the running loop's metrics."""
        return self._checkpoint

    @property
    @override
    def elements_per_step(self) -> int:
        """Batches of a step: more than 1 where gradients are accumulated."""
        return self._state.elements_per_step

    @override
    @autograph.errors_unwrapped()
    def train(self, num_steps: tf.Tensor) -> orbit.runner.Output | None:
        with cluster.lost_workers_explained(self.strategy):
            with self._watching_input():
                logs = super().train(num_steps)
            self._state.synchronize()
            return logs

    def _watching_input(self) -> contextlib.AbstractContextManager[Any]:
        """Returns a context that watches the training data during a loop. Nothing, by default."""
        return contextlib.nullcontext()
