"""Learning-rate schedules and warm-ups.

A schedule is a pure function of the step: float32 arithmetic on tensors, without branches in
Python, so it runs eagerly, in graphs and compiled. Each docstring gives the closed form, in which
`s` is the step counted from `offset` and never negative: before `offset` it keeps its first value.

A warm-up wraps a schedule or a constant. It leads up to the value that the wrapped schedule has at
the end of the warm-up, and then that schedule goes on as if there had been no warm-up: its
steps are not shifted.
"""

import abc
import dataclasses
import itertools
import logging
import math
from collections.abc import Sequence
from typing import Annotated, Any, ClassVar, Literal, Self, TypeAlias

import keras
import pydantic
import tensorflow as tf
from typing_extensions import override

from quintain.optimization import parameters, serializable
from quintain.optimization.configs import ranges

_LOGGER = logging.getLogger(__name__)

LearningRate: TypeAlias = float | keras.optimizers.schedules.LearningRateSchedule
"""A constant or a schedule."""

WrappedRate: TypeAlias = Annotated[LearningRate, pydantic.SkipValidation]
"""A constant or a schedule that a schedule changes; any function of the step will do."""


class StepSchedule(keras.optimizers.schedules.LearningRateSchedule, abc.ABC):
    """Base of the schedules, which are dataclasses: the fields are the constructor's arguments.

    The configs in `quintain.optimization.configs.learning_rate_config` say what they mean. It
    moves the step by an offset and computes in float32.

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
    values: Sequence[float]
    _: dataclasses.KW_ONLY

    offset: int = 0
    name: str | None = None

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
    decay_steps: ranges.Positive
    decay_rate: ranges.Positive
    _: dataclasses.KW_ONLY

    staircase: bool = False
    offset: int = 0
    name: str | None = None

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
    decay_steps: ranges.Positive
    _: dataclasses.KW_ONLY

    end_learning_rate: float = 0.0001
    power: ranges.Positive = 1.0
    cycle: bool = False
    offset: int = 0
    name: str | None = None

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
    decay_steps: ranges.Positive
    _: dataclasses.KW_ONLY

    alpha: float = 0.0
    offset: int = 0
    name: str | None = None

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
    power: float = 1.0
    name: str | None = "DirectPowerDecay"

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


@serializable.register
@dataclasses.dataclass(eq=False, repr=False)
class PowerAndLinearDecay(StepSchedule):
    """Follows a power of the step, and is drawn down to 0 along a line at the end.

    `initial_learning_rate * max(s, 1) ** power * max(0, min(1, (T - s) / (T * f)))`, with
    `T = total_decay_steps`, `f = linear_decay_fraction`; without the last factor if `f` is 0.

    Source:
        Zhai et al., 2022, inverse square root with a cooldown (https://arxiv.org/abs/2106.04560).
    """

    initial_learning_rate: float
    total_decay_steps: ranges.Period
    power: float = 1.0
    linear_decay_fraction: ranges.UnitInterval = 0.1
    offset: int = 0
    name: str | None = "PowerAndLinearDecay"

    @override
    def _compute_rate(self, step: tf.Tensor) -> tf.Tensor:
        rate = self.initial_learning_rate * tf.pow(tf.maximum(step, 1.0), self.power)
        if not self.linear_decay_fraction:
            return rate
        total = float(self.total_decay_steps)
        line = (total - step) / (total * self.linear_decay_fraction)
        return rate * tf.clip_by_value(line, 0.0, 1.0)


@serializable.register
@dataclasses.dataclass(eq=False, repr=False)
class PowerDecayWithOffset(StepSchedule):
    """Holds a value up to a step and follows a power of the steps since then.

    `pre_offset_learning_rate` up to and including step `offset`, then
    `min(pre_offset_learning_rate, initial_learning_rate * s ** power)`.

    If `offset` is 0 there is nothing to hold: step 0 has the rate of step 1.
    """

    initial_learning_rate: float
    power: float = 1.0
    offset: int = 0
    pre_offset_learning_rate: float = 1.0e6
    name: str | None = "PowerDecayWithOffset"

    @override
    def __post_init__(self) -> None:
        super().__post_init__()
        if self.offset > 0 and self.pre_offset_learning_rate >= 1.0e6:
            _LOGGER.warning(
                "pre_offset_learning_rate: got %r, which is the learning rate of the first %d "
                "steps. Set it to a value that trains.",
                self.pre_offset_learning_rate,
                self.offset,
            )

    @override
    def _compute_rate(self, step: tf.Tensor) -> tf.Tensor:
        rate = self.initial_learning_rate * tf.pow(tf.maximum(step, 1.0), self.power)
        rate = tf.minimum(rate, self.pre_offset_learning_rate)
        if not self.offset:
            return rate
        return tf.where(step > 0.0, rate, self.pre_offset_learning_rate)


@serializable.register
@dataclasses.dataclass(eq=False, repr=False)
class StepCosineDecayWithOffset(StepSchedule):
    """Falls (or rises) from each value to the next one along half a cosine wave.

    `values[i]` is reached at `boundaries[i]`. Between them, with
    `p = (s - boundaries[i]) / (boundaries[i + 1] - boundaries[i])`:

        values[i + 1] + (values[i] - values[i + 1]) * (1 + cos(pi * p)) / 2

    Before the first boundary the first value holds, after the last boundary the last value.
    """

    boundaries: Sequence[int]
    values: Sequence[float]
    offset: int = 0
    name: str | None = "StepCosineDecayWithOffset"

    @override
    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.values or len(self.values) != len(self.boundaries):
            raise ValueError(
                "`len(values) == len(boundaries) > 0` must hold, but got "
                f"{len(self.values)=}, {len(self.boundaries)=}."
            )
        require_increasing(self.boundaries)

    @property
    def total_steps(self) -> list[int]:
        """Steps from each value to the next one; 0 for the last."""
        return [end - start for start, end in itertools.pairwise(self.boundaries)] + [0]

    @override
    def _compute_rate(self, step: tf.Tensor) -> tf.Tensor:
        rate = tf.constant(self.values[0], tf.float32)
        segments = zip(
            itertools.pairwise(self.boundaries), itertools.pairwise(self.values), strict=True
        )
        for (start, end), (first, last) in segments:
            done = tf.clip_by_value((step - float(start)) / float(end - start), 0.0, 1.0)
            wave = 0.5 * (1.0 + tf.cos(math.pi * done))
            rate = tf.where(step > float(start), last + (first - last) * wave, rate)
        return rate


@serializable.register
@dataclasses.dataclass(eq=False, repr=False)
class WarmupStableDecay(StepSchedule):
    """Holds a value for most of the training and falls to an end value in its last part.

    With `p = max(0, min(1, (s - stable_steps) / decay_steps))` the part of the decay that is done:

        end + (initial - end) * (1 - p)                     decay_shape "linear"
        end + (initial - end) * (1 + cos(pi * p)) / 2       decay_shape "cosine"
        end + (initial - end) * (1 - sqrt(p))               decay_shape "1-sqrt"

    A warm-up comes from a `LinearWarmup` or `PolynomialWarmUp` around it, whose steps are part of
    `stable_steps`. From a checkpoint of the stable part one can go on with decays of any length.

    Example:
        >>> schedule = WarmupStableDecay(0.5, stable_steps=80, decay_steps=20)
        >>> [float(schedule(step)) for step in (0, 80, 90, 100, 1000)]
        [0.5, 0.5, 0.25, 0.0, 0.0]

    Source:
        Hu et al., 2024 (https://arxiv.org/abs/2404.06395); for the shape "1-sqrt" Hägele et al.,
        2024 (https://arxiv.org/abs/2405.18392).
    """

    initial_learning_rate: float
    stable_steps: ranges.Steps
    decay_steps: ranges.Period
    _: dataclasses.KW_ONLY

    end_learning_rate: float = 0.0
    decay_shape: Literal["linear", "cosine", "1-sqrt"] = "linear"
    offset: int = 0
    name: str | None = None

    @override
    def _compute_rate(self, step: tf.Tensor) -> tf.Tensor:
        done = (step - float(self.stable_steps)) / float(self.decay_steps)
        done = tf.clip_by_value(done, 0.0, 1.0)
        if self.decay_shape == "linear":
            left = 1.0 - done
        elif self.decay_shape == "cosine":
            left = 0.5 * (1.0 + tf.cos(math.pi * done))
        else:
            left = 1.0 - tf.sqrt(done)
        return self.end_learning_rate + (self.initial_learning_rate - self.end_learning_rate) * left


@dataclasses.dataclass(eq=False, repr=False)
class Warmup(StepSchedule, abc.ABC):
    """Base of the warm-ups: joins a rising part to the wrapped schedule."""

    after_warmup_lr_sched: WrappedRate
    """Schedule or constant after the warm-up."""

    warmup_steps: ranges.Steps
    """Steps that the warm-up takes; 0 for none."""

    @override
    def _compute_rate(self, step: tf.Tensor) -> tf.Tensor:
        after = evaluate(self.after_warmup_lr_sched, step)
        if self.warmup_steps == 0:
            return after
        last = float(self.warmup_steps)
        target = evaluate(self.after_warmup_lr_sched, last)
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
    name: str | None = None

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
    name: str | None = "PolynomialWarmup"

    @override
    def _compute_warmup(self, done: tf.Tensor, target: tf.Tensor) -> tf.Tensor:
        return target * tf.pow(tf.maximum(done, 1.0 / self.warmup_steps), self.power)


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
