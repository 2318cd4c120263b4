"""Learning-rate schedules and warm-ups.

A schedule is a pure function of the step: float32 arithmetic on tensors, without branches in
Python, so it runs eagerly, in graphs and compiled. Each docstring gives the closed form, in which
`s` is the step counted from `offset` and never negative: before `offset` it keeps its first value.
"""

import abc
import dataclasses
import itertools
import math
from collections.abc import Sequence
from typing import Annotated, Any, ClassVar, Self, TypeAlias

import keras
import pydantic
import tensorflow as tf
from typing_extensions import override

from quintain.optimization import parameters, serializable
from quintain.optimization.configs import choices, learning_rate_config, ranges

LearningRate: TypeAlias = float | keras.optimizers.schedules.LearningRateSchedule
"""A constant or a schedule."""

WrappedRate: TypeAlias = Annotated[LearningRate, pydantic.SkipValidation]
"""A constant or a schedule that a schedule changes; any function of the step will do."""


def __getattr__(name: str) -> Any:
    """Finds the schedules that lie in other files under this module's name too."""
    for config_cls in (learning_rate_config.LrConfig, learning_rate_config.WarmupConfig):
        for path in choices.find_builders(config_cls).values():
            if path.endswith(f".{name}") and not path.startswith(__name__):
                return choices.load(path)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


class StepSchedule(keras.optimizers.schedules.LearningRateSchedule, abc.ABC):
    """Base of the schedules, which are dataclasses: the fields are the constructor's arguments.

    It moves the step by an offset and computes in float32.

    Raises:
        ValueError: If a parameter is out of range.
    """

    base_lr_class: ClassVar[type["StepSchedule"]]
    """The class itself: called without `offset` it makes the schedule that starts at step 0."""

    @override
    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        cls.base_lr_class = cls

    offset = 0
    name: str | None = None

    def __post_init__(self) -> None:
        self.__dict__.update(parameters.check(self))
        self.name = self.name or type(self).__name__

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
        """Returns the constructor's arguments; a wrapped schedule is described whole."""
        return {
            name: keras.saving.serialize_keras_object(value) if callable(value) else value
            for name, value in parameters.describe(self).items()
        }

    @override
    @classmethod
    def from_config(cls, config: dict[str, Any]) -> Self:
        """Returns the schedule that `get_config` describes."""
        return cls(
            **{
                name: keras.saving.deserialize_keras_object(value)
                if isinstance(value, dict)
                else value
                for name, value in config.items()
            }
        )


@serializable.register
@dataclasses.dataclass(eq=False, repr=False)
class PiecewiseConstantDecayWithOffset(StepSchedule):
    """Holds one value between every two boundaries.

    `values[i]` where `i` is the number of boundaries below `s`: at a boundary the old value
    still holds.
    """

    boundaries: Sequence[int]
    """Increasing steps, the last at which each value but the last one holds."""

    values: Sequence[float]
    """One learning rate more than there are boundaries."""

    _: dataclasses.KW_ONLY

    offset: int = 0
    """Step at which the schedule starts."""

    name: str | None = None
    """Name for display."""

    @override
    def __post_init__(self) -> None:
        super().__post_init__()
        if len(self.values) != len(self.boundaries) + 1:
            raise ValueError(
                "`len(values) == len(boundaries) + 1` must hold, but got "
                f"{len(self.values)=}, {len(self.boundaries)=}."
            )
        require_increasing(self.boundaries)

    @override
    def _compute_rate(self, step: tf.Tensor) -> tf.Tensor:
        boundaries = tf.constant(self.boundaries, tf.float32, [len(self.boundaries)])
        index = tf.reduce_sum(tf.cast(step > boundaries, tf.int32))
        return tf.gather(tf.constant(self.values, tf.float32), index)


@serializable.register
@dataclasses.dataclass(eq=False, repr=False)
class ExponentialDecayWithOffset(StepSchedule):
    """Multiplies the learning rate by the same factor in every period.

    `initial_learning_rate * decay_rate ** (s / decay_steps)`; with `staircase` the exponent is
    rounded down.
    """

    initial_learning_rate: float
    """Learning rate at the start."""

    decay_steps: ranges.Positive
    """Steps in which the rate is multiplied by `decay_rate` once."""

    decay_rate: ranges.Positive
    """Positive factor."""

    _: dataclasses.KW_ONLY

    staircase: bool = False
    """Whether the rate changes once in `decay_steps` steps, not at every step."""

    offset: int = 0
    """Step at which the schedule starts."""

    name: str | None = None
    """Name for display."""

    @override
    def _compute_rate(self, step: tf.Tensor) -> tf.Tensor:
        exponent = step / float(self.decay_steps)
        if self.staircase:
            exponent = tf.floor(exponent)
        return self.initial_learning_rate * tf.pow(self.decay_rate, exponent)


@serializable.register
@dataclasses.dataclass(eq=False, repr=False)
class PolynomialDecayWithOffset(StepSchedule):
    """Falls to an end value along a polynomial; linearly by default.

    `(initial - end) * (1 - min(s, T) / T) ** power + end`, `T = decay_steps`. With `cycle`, `T` is
    the smallest positive multiple of `decay_steps` that is not below `s`: the rate jumps up after
    every period and falls again, more slowly.
    """

    initial_learning_rate: float
    """Learning rate at the start."""

    decay_steps: ranges.Positive
    """Steps until the end value is reached."""

    _: dataclasses.KW_ONLY

    end_learning_rate: float = 0.0001
    """Learning rate at the end."""

    power: ranges.Positive = 1.0
    """Positive exponent."""

    cycle: bool = False
    """Whether to start again after `decay_steps` instead of keeping the end value."""

    offset: int = 0
    """Step at which the schedule starts."""

    name: str | None = None
    """Name for display."""

    @override
    def _compute_rate(self, step: tf.Tensor) -> tf.Tensor:
        periods = step / float(self.decay_steps)
        if self.cycle:
            done = periods / tf.maximum(tf.math.ceil(periods), 1.0)
        else:
            done = tf.minimum(periods, 1.0)
        span = self.initial_learning_rate - self.end_learning_rate
        return span * tf.pow(1.0 - done, self.power) + self.end_learning_rate


@serializable.register
@dataclasses.dataclass(eq=False, repr=False)
class CosineDecayWithOffset(StepSchedule):
    """Falls along half a cosine wave.

    `initial * ((1 - alpha) * (1 + cos(pi * min(s, T) / T)) / 2 + alpha)`, `T = decay_steps`.

    Source:
        Loshchilov and Hutter, 2017, section 3 (https://arxiv.org/abs/1608.03983), without restarts.
    """

    initial_learning_rate: float
    """Learning rate at the start."""

    decay_steps: ranges.Positive
    """Steps until the end value is reached."""

    _: dataclasses.KW_ONLY

    alpha: float = 0.0
    """End value, as a fraction of `initial_learning_rate`."""

    offset: int = 0
    """Step at which the schedule starts."""

    name: str | None = None
    """Name for display."""

    @override
    def _compute_rate(self, step: tf.Tensor) -> tf.Tensor:
        done = tf.minimum(step / float(self.decay_steps), 1.0)
        wave = 0.5 * (1.0 + tf.cos(math.pi * done))
        return self.initial_learning_rate * ((1.0 - self.alpha) * wave + self.alpha)


@serializable.register
@dataclasses.dataclass(eq=False, repr=False)
class DirectPowerDecay(StepSchedule):
    """Follows a power of the step; with -0.5 the inverse square root of the Transformer paper.

    `initial_learning_rate * max(s, 1) ** power`.

    Source:
        Vaswani et al., 2017, section 5.3 (https://arxiv.org/abs/1706.03762).
    """

    initial_learning_rate: float
    """Learning rate at step 1."""

    power: float = 1.0
    """Exponent, usually negative."""

    name: str | None = "DirectPowerDecay"
    """Name for display."""

    @override
    def _compute_rate(self, step: tf.Tensor) -> tf.Tensor:
        return self.initial_learning_rate * tf.pow(tf.maximum(step, 1.0), self.power)


@serializable.register
@dataclasses.dataclass(eq=False, repr=False)
class InverseTimeDecay(StepSchedule):
    """Divides another learning rate by a growing number: `f(s) / (1 + decay * s)`."""

    rate: WrappedRate
    """Schedule or constant `f`."""

    decay: ranges.NonNegative
    """Growth of the divisor in a step, at least 0."""

    name: str | None = None
    """Name for display."""

    @override
    def _compute_rate(self, step: tf.Tensor) -> tf.Tensor:
        return evaluate(self.rate, step) / (1.0 + self.decay * step)


def divide_over_time(rate: LearningRate, decay: float) -> LearningRate:
    """Returns a learning rate divided by `1 + decay * step`: itself if `decay` is 0."""
    return InverseTimeDecay(rate, decay) if decay else rate


def evaluate(rate: LearningRate, step: tf.Tensor | float) -> tf.Tensor:
    """Returns the `[]` float32 value of a schedule or constant at a step."""
    return tf.cast(rate(step) if callable(rate) else rate, tf.float32)


def require_increasing(boundaries: Sequence[int]) -> None:
    """Checks that each step is after the one before.

    Raises:
        ValueError: If one is not.
    """
    if any(right <= left for left, right in itertools.pairwise(boundaries)):
        raise ValueError(f"boundaries: got {list(boundaries)!r}, expected increasing steps.")
