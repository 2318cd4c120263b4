"""Warm-ups: the first steps of training with a smaller learning rate.

A warm-up wraps a schedule or a constant. It leads up to the value that the wrapped schedule has at
the end of the warm-up, and then that schedule goes on as if there had been no warm-up: its
steps are not shifted.
"""

import abc
from typing import Any, Self

import keras
import tensorflow as tf
from typing_extensions import override

from quintain.optimization import lr_schedule


class Warmup(lr_schedule.StepSchedule, abc.ABC):
    """Base of the warm-ups: joins a rising part to the wrapped schedule."""

    def __init__(
        self, after_warmup_lr_sched: lr_schedule.LearningRate, warmup_steps: int, name: str | None
    ) -> None:
        """Stores the wrapped schedule.

        Args:
            after_warmup_lr_sched: Schedule or constant after the warm-up.
            warmup_steps: Steps that the warm-up takes; 0 for none.
            name: Name for display.

        Raises:
            ValueError: If `warmup_steps` is negative.
        """
        super().__init__(name=name)
        if warmup_steps < 0:
            raise ValueError(f"warmup_steps: got {warmup_steps!r}, expected a number >= 0.")
        self.after_warmup_lr_sched = after_warmup_lr_sched
        self.warmup_steps = int(warmup_steps)

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

    @override
    def get_config(self) -> dict[str, Any]:
        schedule = self.after_warmup_lr_sched
        return {
            "after_warmup_lr_sched": keras.saving.serialize_keras_object(schedule),
            "warmup_steps": self.warmup_steps,
            "name": self.name,
        }

    @override
    @classmethod
    def from_config(cls, config: dict[str, Any]) -> Self:
        schedule = keras.saving.deserialize_keras_object(config["after_warmup_lr_sched"])
        return cls(**(config | {"after_warmup_lr_sched": schedule}))


@keras.saving.register_keras_serializable("quintain")
class LinearWarmup(Warmup):
    """Rises along a straight line.

    `w + (f(W) - w) * s / W` below step `W = warmup_steps`, then `f(s)`; `f` is the wrapped
    schedule and `w` is `warmup_learning_rate`.

    Example:
        >>> schedule = LinearWarmup(0.1, warmup_steps=10, warmup_learning_rate=0.0)
        >>> [round(float(schedule(step)), 3) for step in (0, 5, 10, 1000)]
        [0.0, 0.05, 0.1, 0.1]
    """

    def __init__(
        self,
        after_warmup_lr_sched: lr_schedule.LearningRate,
        warmup_steps: int,
        warmup_learning_rate: float = 0.0,
        name: str | None = None,
    ) -> None:
        """Stores the wrapped schedule and the start value.

        Args:
            after_warmup_lr_sched: Schedule or constant after the warm-up.
            warmup_steps: Steps that the warm-up takes; 0 for none.
            warmup_learning_rate: Learning rate at step 0.
            name: Name for display.

        Raises:
            ValueError: If `warmup_steps` is negative.
        """
        super().__init__(after_warmup_lr_sched, warmup_steps, name)
        self.warmup_learning_rate = float(warmup_learning_rate)

    @override
    def _compute_warmup(self, done: tf.Tensor, target: tf.Tensor) -> tf.Tensor:
        return self.warmup_learning_rate + done * (target - self.warmup_learning_rate)

    @override
    def get_config(self) -> dict[str, Any]:
        return super().get_config() | {"warmup_learning_rate": self.warmup_learning_rate}


@keras.saving.register_keras_serializable("quintain")
class PolynomialWarmUp(Warmup):
    """Rises from almost 0 along a power.

    `f(W) * (max(s, 1) / W) ** power` below step `W = warmup_steps`, then `f(s)`; `f` is the wrapped
    schedule.
    """

    def __init__(
        self,
        after_warmup_lr_sched: lr_schedule.LearningRate,
        warmup_steps: int,
        power: float = 1.0,
        name: str | None = None,
    ) -> None:
        """Stores the wrapped schedule and the exponent.

        Args:
            after_warmup_lr_sched: Schedule or constant after the warm-up.
            warmup_steps: Steps that the warm-up takes; 0 for none.
            power: Exponent.
            name: Name for display.

        Raises:
            ValueError: If `warmup_steps` is negative.
        """
        super().__init__(after_warmup_lr_sched, warmup_steps, name)
        self.power = float(power)

    @override
    def _compute_warmup(self, done: tf.Tensor, target: tf.Tensor) -> tf.Tensor:
        return target * tf.pow(tf.maximum(done, 1.0 / self.warmup_steps), self.power)

    @override
    def get_config(self) -> dict[str, Any]:
        return super().get_config() | {"power": self.power}
