"""Warm-ups: the first steps of training with a smaller learning rate.

A warm-up wraps a schedule or a constant. It leads up to the value that the wrapped schedule has at
the end of the warm-up, and then that schedule goes on as if there had been no warm-up: its
steps are not shifted.
"""

import abc
import dataclasses

import tensorflow as tf
from typing_extensions import override

from quintain.optimization import serializable
from quintain.optimization.configs import ranges
from quintain.optimization.schedules import lr_schedule


@dataclasses.dataclass(eq=False, repr=False)
class Warmup(lr_schedule.StepSchedule, abc.ABC):
    """Base of the warm-ups: joins a rising part to the wrapped schedule."""

    after_warmup_lr_sched: lr_schedule.WrappedRate
    """Schedule or constant after the warm-up."""

    warmup_steps: ranges.Steps
    """Steps that the warm-up takes; 0 for none."""

    @override
    def _compute_rate(self, step: tf.Tensor) -> tf.Tensor:
        after = lr_schedule.evaluate(self.after_warmup_lr_sched, step)
        if self.warmup_steps == 0:
            return after
        last = float(self.warmup_steps)
        target = lr_schedule.evaluate(self.after_warmup_lr_sched, last)
        return tf.where(step < last, self._compute_warmup(step / last, target), after)

    @abc.abstractmethod
    def _compute_warmup(self, done: tf.Tensor, target: tf.Tensor) -> tf.Tensor:
        """Returns the rate at the fraction `done` of the way to `target`, all `[]` float32."""


@serializable.register
@dataclasses.dataclass(eq=False, repr=False)
class LinearWarmup(Warmup):
    """Rises along a straight line.

    `w + (f(W) - w) * s / W` below step `W = warmup_steps`, then `f(s)`; `f` is the wrapped
    schedule and `w` is `warmup_learning_rate`.

    Example:
        >>> schedule = LinearWarmup(0.1, warmup_steps=10, warmup_learning_rate=0.0)
        >>> [round(float(schedule(step)), 3) for step in (0, 5, 10, 1000)]
        [0.0, 0.05, 0.1, 0.1]
    """

    warmup_learning_rate: float = 0.0
    """Learning rate at step 0."""

    name: str | None = None
    """Name for display."""

    @override
    def _compute_warmup(self, done: tf.Tensor, target: tf.Tensor) -> tf.Tensor:
        return self.warmup_learning_rate + done * (target - self.warmup_learning_rate)


@serializable.register
@dataclasses.dataclass(eq=False, repr=False)
class PolynomialWarmUp(Warmup):
    """Rises from almost 0 along a power.

    `f(W) * (max(s, 1) / W) ** power` below step `W = warmup_steps`, then `f(s)`; `f` is the wrapped
    schedule.
    """

    power: float = 1.0
    """Exponent."""

    name: str | None = "PolynomialWarmup"
    """Name for display."""

    @override
    def _compute_warmup(self, done: tf.Tensor, target: tf.Tensor) -> tf.Tensor:
        return target * tf.pow(tf.maximum(done, 1.0 / self.warmup_steps), self.power)
