"""Scale of the learning rate of an optimizer that trains already."""

from typing import Any

import keras
import tensorflow as tf
from typing_extensions import override

from quintain.optimization import optimizer_wrapper


class ScaledSchedule(keras.optimizers.schedules.LearningRateSchedule):
    """A schedule times a factor that can be changed between two steps, also of a compiled loop.

    Example:
        >>> schedule = ScaledSchedule(keras.optimizers.schedules.ExponentialDecay(0.1, 10, 0.5))
        >>> schedule.factor.assign(0.5)  # doctest: +ELLIPSIS
        <tf.Variable ...>
        >>> float(schedule(10))
        0.025...
    """

    def __init__(self, schedule: keras.optimizers.schedules.LearningRateSchedule) -> None:
        super().__init__()
        self.schedule = schedule
        self.factor = tf.Variable(
            1.0,
            dtype=tf.float32,
            trainable=False,
            name="learning_rate_factor",
            aggregation=tf.VariableAggregation.ONLY_FIRST_REPLICA,
        )

    @override
    def __call__(self, step: Any) -> tf.Tensor:
        """Returns the learning rate at `step`, a `[]` float32."""
        rate = tf.convert_to_tensor(self.schedule(step))
        return rate * tf.cast(self.factor, rate.dtype)

    @override
    def get_config(self) -> dict[str, Any]:
        """Returns the wrapped schedule and the present factor."""
        return {"schedule": self.schedule, "factor": float(self.factor.numpy())}

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> "ScaledSchedule":
        """Returns the schedule that `get_config` describes."""
        scaled = cls(config["schedule"])
        scaled.factor.assign(config["factor"])
        return scaled


def prepare(optimizer: keras.optimizers.Optimizer) -> None:
    """Makes the rate of an optimizer scalable; to be called before its first compiled step.

    A constant rate is a variable, and needs nothing.
    """
    inner = find_inner(optimizer)
    schedule = inner._learning_rate
    if isinstance(schedule, keras.optimizers.schedules.LearningRateSchedule) and not isinstance(
        schedule, ScaledSchedule
    ):
        inner.learning_rate = ScaledSchedule(schedule)


def scale(optimizer: keras.optimizers.Optimizer, *, factor: float, previous: float) -> None:
    """Sets the factor of the rate of a prepared optimizer.

    Args:
        optimizer: The optimizer.
        factor: Factor relative to the rate that its config gives.
        previous: The factor that the present value of a constant rate contains.
    """
    inner = find_inner(optimizer)
    rate = inner._learning_rate
    if isinstance(rate, ScaledSchedule):
        rate.factor.assign(factor)
    elif factor != previous:
        rate.assign(rate * (factor / previous))


def find_inner(optimizer: Any) -> keras.optimizers.Optimizer:
    """Returns the optimizer that has the learning rate, inside of those that wrap it."""
    *_, inner = optimizer_wrapper.list_nested(optimizer)
    return inner
