"""Learning-rate schedules and warm-ups.

A schedule is a pure function of the step: float32 arithmetic on tensors, without branches in
Python, so it runs eagerly, in graphs and compiled. Each docstring gives the closed form, in which
`s` is the step counted from `offset` and never negative: before `offset` it keeps its first value.
"""

import abc
import itertools
import math
from collections.abc import Sequence
from typing import Any, ClassVar, Self, TypeAlias

import keras
import tensorflow as tf
from typing_extensions import override

from quintain.optimization.configs import choices, learning_rate_config

LearningRate: TypeAlias = float | keras.optimizers.schedules.LearningRateSchedule
"""A constant or a schedule."""

_PACKAGE = "quintain"


def __getattr__(name: str) -> Any:
    """Finds the schedules that lie in other files under this module's name too."""
    for config_cls in (learning_rate_config.LrConfig, learning_rate_config.WarmupConfig):
        for path in choices.find_builders(config_cls).values():
            if path.endswith(f".{name}") and not path.startswith(__name__):
                return choices.load(path)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


class StepSchedule(keras.optimizers.schedules.LearningRateSchedule, abc.ABC):
    """Base of the schedules: moves the step by an offset and computes in float32."""

    base_lr_class: ClassVar[type["StepSchedule"]]
    """The class itself: called without `offset` it makes the schedule that starts at step 0."""

    @override
    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        cls.base_lr_class = cls

    def __init__(self, *, offset: int = 0, name: str | None = None) -> None:
        """Stores what all schedules share.

        Args:
            offset: Step at which the schedule starts.
            name: Name for display.
        """
        super().__init__()
        self.offset = offset
        self.name = name or type(self).__name__

    @override
    def __call__(self, step: Any) -> tf.Tensor:
        """Returns the learning rate of a step.

        Args:
            step: Scalar number, tensor or variable: updates done so far.

        Returns:
            `[]` float32.
        """
        moved = tf.cast(tf.convert_to_tensor(step), tf.float32) - float(self.offset)
        return self._compute_rate(tf.maximum(moved, 0.0))

    @abc.abstractmethod
    def _compute_rate(self, step: tf.Tensor) -> tf.Tensor:
        """Returns the `[]` float32 learning rate of `step`, a `[]` float32 that is at least 0."""

    @override
    def get_config(self) -> dict[str, Any]:
        return {"offset": self.offset, "name": self.name}


@keras.saving.register_keras_serializable(_PACKAGE)
class PiecewiseConstantDecayWithOffset(StepSchedule):
    """Holds one value between every two boundaries.

    `values[i]` where `i` is the number of boundaries below `s`: at a boundary the old value
    still holds.
    """

    def __init__(
        self,
        boundaries: Sequence[int],
        values: Sequence[float],
        *,
        offset: int = 0,
        name: str | None = None,
    ) -> None:
        """Stores the steps and the values between them.

        Args:
            boundaries: Increasing steps, the last at which each value but the last one holds.
            values: One learning rate more than there are boundaries.
            offset: Step at which the schedule starts.
            name: Name for display.

        Raises:
            ValueError: If the boundaries do not increase, or the number of values does not fit.
        """
        super().__init__(offset=offset, name=name)
        if len(values) != len(boundaries) + 1:
            raise ValueError(
                f"`len(values) == len(boundaries) + 1` must hold, but got {len(values)=}, "
                f"{len(boundaries)=}."
            )
        if any(right <= left for left, right in itertools.pairwise(boundaries)):
            raise ValueError(f"boundaries: got {boundaries!r}, expected increasing steps.")
        self.boundaries = [int(boundary) for boundary in boundaries]
        self.values = [float(value) for value in values]

    @override
    def _compute_rate(self, step: tf.Tensor) -> tf.Tensor:
        boundaries = tf.constant(self.boundaries, tf.float32, [len(self.boundaries)])
        index = tf.reduce_sum(tf.cast(step > boundaries, tf.int32))
        return tf.gather(tf.constant(self.values, tf.float32), index)

    @override
    def get_config(self) -> dict[str, Any]:
        return super().get_config() | {"boundaries": self.boundaries, "values": self.values}


@keras.saving.register_keras_serializable(_PACKAGE)
class ExponentialDecayWithOffset(StepSchedule):
    """Multiplies the learning rate by the same factor in every period.

    `initial_learning_rate * decay_rate ** (s / decay_steps)`; with `staircase` the exponent is
    rounded down.
    """

    def __init__(
        self,
        initial_learning_rate: float,
        decay_steps: int,
        decay_rate: float,
        *,
        staircase: bool = False,
        offset: int = 0,
        name: str | None = None,
    ) -> None:
        """Stores the parameters of the formula.

        Args:
            initial_learning_rate: Learning rate at the start.
            decay_steps: Steps in which the rate is multiplied by `decay_rate` once.
            decay_rate: Positive factor.
            staircase: Whether the rate changes once in `decay_steps` steps, not at every step.
            offset: Step at which the schedule starts.
            name: Name for display.

        Raises:
            ValueError: If `decay_steps` or `decay_rate` is not positive.
        """
        super().__init__(offset=offset, name=name)
        self.initial_learning_rate = float(initial_learning_rate)
        self.decay_steps = _require_positive("decay_steps", decay_steps)
        self.decay_rate = float(_require_positive("decay_rate", decay_rate))
        self.staircase = bool(staircase)

    @override
    def _compute_rate(self, step: tf.Tensor) -> tf.Tensor:
        exponent = step / float(self.decay_steps)
        if self.staircase:
            exponent = tf.floor(exponent)
        return self.initial_learning_rate * tf.pow(self.decay_rate, exponent)

    @override
    def get_config(self) -> dict[str, Any]:
        return super().get_config() | {
            "initial_learning_rate": self.initial_learning_rate,
            "decay_steps": self.decay_steps,
            "decay_rate": self.decay_rate,
            "staircase": self.staircase,
        }


@keras.saving.register_keras_serializable(_PACKAGE)
class PolynomialDecayWithOffset(StepSchedule):
    """Falls to an end value along a polynomial; linearly by default.

    `(initial - end) * (1 - min(s, T) / T) ** power + end`, `T = decay_steps`. With `cycle`, `T` is
    the smallest positive multiple of `decay_steps` that is not below `s`: the rate jumps up after
    every period and falls again, more slowly.
    """

    def __init__(
        self,
        initial_learning_rate: float,
        decay_steps: int,
        *,
        end_learning_rate: float = 0.0001,
        power: float = 1.0,
        cycle: bool = False,
        offset: int = 0,
        name: str | None = None,
    ) -> None:
        """Stores the parameters of the formula.

        Args:
            initial_learning_rate: Learning rate at the start.
            decay_steps: Steps until the end value is reached.
            end_learning_rate: Learning rate at the end.
            power: Positive exponent.
            cycle: Whether to start again after `decay_steps` instead of keeping the end value.
            offset: Step at which the schedule starts.
            name: Name for display.

        Raises:
            ValueError: If `decay_steps` or `power` is not positive.
        """
        super().__init__(offset=offset, name=name)
        self.initial_learning_rate = float(initial_learning_rate)
        self.decay_steps = _require_positive("decay_steps", decay_steps)
        self.end_learning_rate = float(end_learning_rate)
        self.power = float(_require_positive("power", power))
        self.cycle = bool(cycle)

    @override
    def _compute_rate(self, step: tf.Tensor) -> tf.Tensor:
        periods = step / float(self.decay_steps)
        if self.cycle:
            done = periods / tf.maximum(tf.math.ceil(periods), 1.0)
        else:
            done = tf.minimum(periods, 1.0)
        span = self.initial_learning_rate - self.end_learning_rate
        return span * tf.pow(1.0 - done, self.power) + self.end_learning_rate

    @override
    def get_config(self) -> dict[str, Any]:
        return super().get_config() | {
            "initial_learning_rate": self.initial_learning_rate,
            "decay_steps": self.decay_steps,
            "end_learning_rate": self.end_learning_rate,
            "power": self.power,
            "cycle": self.cycle,
        }


@keras.saving.register_keras_serializable(_PACKAGE)
class CosineDecayWithOffset(StepSchedule):
    """Falls along half a cosine wave.

    `initial * ((1 - alpha) * (1 + cos(pi * min(s, T) / T)) / 2 + alpha)`, `T = decay_steps`.

    Source:
        Loshchilov and Hutter, 2017, section 3 (https://arxiv.org/abs/1608.03983), without restarts.
    """

    def __init__(
        self,
        initial_learning_rate: float,
        decay_steps: int,
        *,
        alpha: float = 0.0,
        offset: int = 0,
        name: str | None = None,
    ) -> None:
        """Stores the parameters of the formula.

        Args:
            initial_learning_rate: Learning rate at the start.
            decay_steps: Steps until the end value is reached.
            alpha: End value, as a fraction of `initial_learning_rate`.
            offset: Step at which the schedule starts.
            name: Name for display.

        Raises:
            ValueError: If `decay_steps` is not positive.
        """
        super().__init__(offset=offset, name=name)
        self.initial_learning_rate = float(initial_learning_rate)
        self.decay_steps = _require_positive("decay_steps", decay_steps)
        self.alpha = float(alpha)

    @override
    def _compute_rate(self, step: tf.Tensor) -> tf.Tensor:
        done = tf.minimum(step / float(self.decay_steps), 1.0)
        wave = 0.5 * (1.0 + tf.cos(math.pi * done))
        return self.initial_learning_rate * ((1.0 - self.alpha) * wave + self.alpha)

    @override
    def get_config(self) -> dict[str, Any]:
        return super().get_config() | {
            "initial_learning_rate": self.initial_learning_rate,
            "decay_steps": self.decay_steps,
            "alpha": self.alpha,
        }


@keras.saving.register_keras_serializable(_PACKAGE)
class DirectPowerDecay(StepSchedule):
    """Follows a power of the step; with -0.5 the inverse square root of the Transformer paper.

    `initial_learning_rate * max(s, 1) ** power`.

    Source:
        Vaswani et al., 2017, section 5.3 (https://arxiv.org/abs/1706.03762).
    """

    def __init__(
        self, initial_learning_rate: float, power: float = 1.0, name: str | None = None
    ) -> None:
        """Stores the parameters of the formula.

        Args:
            initial_learning_rate: Learning rate at step 1.
            power: Exponent, usually negative.
            name: Name for display.
        """
        super().__init__(name=name)
        self.initial_learning_rate = float(initial_learning_rate)
        self.power = float(power)

    @override
    def _compute_rate(self, step: tf.Tensor) -> tf.Tensor:
        return self.initial_learning_rate * tf.pow(tf.maximum(step, 1.0), self.power)

    @override
    def get_config(self) -> dict[str, Any]:
        return {
            "initial_learning_rate": self.initial_learning_rate,
            "power": self.power,
            "name": self.name,
        }


@keras.saving.register_keras_serializable(_PACKAGE)
class InverseTimeDecay(StepSchedule):
    """Divides another learning rate by a growing number: `f(s) / (1 + decay * s)`."""

    def __init__(self, rate: LearningRate, decay: float, name: str | None = None) -> None:
        """Stores the wrapped learning rate.

        Args:
            rate: Schedule or constant `f`.
            decay: Growth of the divisor in a step, at least 0.
            name: Name for display.

        Raises:
            ValueError: If `decay` is negative.
        """
        super().__init__(name=name)
        if not decay >= 0.0:
            raise ValueError(f"decay: got {decay!r}, expected a number >= 0.")
        self.rate = rate
        self.decay = float(decay)

    @override
    def _compute_rate(self, step: tf.Tensor) -> tf.Tensor:
        return evaluate(self.rate, step) / (1.0 + self.decay * step)

    @override
    def get_config(self) -> dict[str, Any]:
        return {
            "rate": keras.saving.serialize_keras_object(self.rate),
            "decay": self.decay,
            "name": self.name,
        }

    @override
    @classmethod
    def from_config(cls, config: dict[str, Any]) -> Self:
        return cls(**(config | {"rate": keras.saving.deserialize_keras_object(config["rate"])}))


def divide_over_time(rate: LearningRate, decay: float) -> LearningRate:
    """Returns a learning rate divided by `1 + decay * step`: itself if `decay` is 0."""
    return InverseTimeDecay(rate, decay) if decay else rate


def evaluate(rate: LearningRate, step: tf.Tensor | float) -> tf.Tensor:
    """Returns the `[]` float32 value of a schedule or constant at a step."""
    return tf.cast(rate(step) if callable(rate) else rate, tf.float32)


def _require_positive(name: str, value: float) -> Any:
    if not value > 0:
        raise ValueError(f"{name}: got {value!r}, expected a number > 0.")
    return value
