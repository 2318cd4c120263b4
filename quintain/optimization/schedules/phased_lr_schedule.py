"""Learning-rate schedules of several phases.

As in `lr_schedule`, each docstring gives the closed form, in which `s` is the step counted from
`offset` and never negative: before `offset` a schedule keeps its first value.
"""

import dataclasses
import itertools
import logging
import math
from collections.abc import Sequence
from typing import Final

import tensorflow as tf
from typing_extensions import override

from quintain import errors
from quintain.optimization import serializable
from quintain.optimization.configs import ranges
from quintain.optimization.schedules import lr_schedule

_LOGGER = logging.getLogger(__name__)
DECAY_SHAPES: Final = ("linear", "cosine", "1-sqrt")
"""How `WarmupStableDecay` may fall."""


@serializable.register
@dataclasses.dataclass(eq=False, repr=False)
class PowerAndLinearDecay(lr_schedule.StepSchedule):
    """Follows a power of the step, and is drawn down to 0 along a line at the end.

    `initial_learning_rate * max(s, 1) ** power * max(0, min(1, (T - s) / (T * f)))`, with
    `T = total_decay_steps`, `f = linear_decay_fraction`; without the last factor if `f` is 0.

    Source:
        Zhai et al., 2022, inverse square root with a cooldown (https://arxiv.org/abs/2106.04560).
    """

    initial_learning_rate: float
    """Learning rate at step 1."""

    total_decay_steps: ranges.Period
    """Steps until the rate is 0, all together."""

    power: float = 1.0
    """Exponent, usually negative."""

    linear_decay_fraction: ranges.UnitInterval = 0.1
    """Part of the steps in which the line falls, in `[0, 1]`."""

    offset: int = 0
    """Step at which the schedule starts."""

    name: str | None = "PowerAndLinearDecay"
    """Name for display."""

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
class PowerDecayWithOffset(lr_schedule.StepSchedule):
    """Holds a value up to a step and follows a power of the steps since then.

    `pre_offset_learning_rate` up to and including step `offset`, then
    `min(pre_offset_learning_rate, initial_learning_rate * s ** power)`.

    If `offset` is 0 there is nothing to hold: step 0 has the rate of step 1.
    """

    initial_learning_rate: float
    """Learning rate one step after `offset`, if it is below the limit."""

    power: float = 1.0
    """Exponent, usually negative."""

    offset: int = 0
    """Last step of the held value."""

    pre_offset_learning_rate: float = 1.0e6
    """The held value, and a limit of all later ones. Set it whenever `offset` is not 0: the default
    is no more than an absent limit."""

    name: str | None = "PowerDecayWithOffset"
    """Name for display."""

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
class StepCosineDecayWithOffset(lr_schedule.StepSchedule):
    """Falls (or rises) from each value to the next one along half a cosine wave.

    `values[i]` is reached at `boundaries[i]`. Between them, with
    `p = (s - boundaries[i]) / (boundaries[i + 1] - boundaries[i])`:

        values[i + 1] + (values[i] - values[i + 1]) * (1 + cos(pi * p)) / 2

    Before the first boundary the first value holds, after the last boundary the last value.
    """

    boundaries: Sequence[int]
    """Increasing steps, one for each value. The first is usually 0."""

    values: Sequence[float]
    """Learning rates at the boundaries."""

    offset: int = 0
    """Step at which the schedule starts."""

    name: str | None = "StepCosineDecayWithOffset"
    """Name for display."""

    @override
    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.values or len(self.values) != len(self.boundaries):
            raise ValueError(
                "`len(values) == len(boundaries) > 0` must hold, but got "
                f"{len(self.values)=}, {len(self.boundaries)=}."
            )
        lr_schedule.require_increasing(self.boundaries)

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
class WarmupStableDecay(lr_schedule.StepSchedule):
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
    """Learning rate of the stable part."""

    stable_steps: ranges.Steps
    """Steps of warm-up and stable part together, at least 0."""

    decay_steps: ranges.Period
    """Steps of the decay."""

    _: dataclasses.KW_ONLY

    end_learning_rate: float = 0.0
    """Learning rate at the end."""

    decay_shape: str = "linear"
    """One of `DECAY_SHAPES`."""

    offset: int = 0
    """Step at which the schedule starts."""

    name: str | None = None
    """Name for display."""

    @override
    def __post_init__(self) -> None:
        super().__post_init__()
        if self.decay_shape not in DECAY_SHAPES:
            raise ValueError(
                f"decay_shape: got {self.decay_shape!r}, expected one of "
                f"{', '.join(DECAY_SHAPES)}.{errors.suggest(self.decay_shape, DECAY_SHAPES)}"
            )

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
