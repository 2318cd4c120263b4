"""Configs of learning-rate schedules and warm-ups.

The formulas are in `quintain.optimization.schedules.lr_schedule`. A field that is None by default
has to be set when its schedule is chosen.
"""

import dataclasses
import itertools
from collections.abc import Iterator
from typing import Literal

from typing_extensions import override

from quintain import errors
from quintain.config import base_config, one_of
from quintain.optimization.configs import choices
from quintain.optimization.configs.ranges import (
    Finite,
    NonNegative,
    Offset,
    Period,
    Positive,
    Steps,
    UnitInterval,
)


@dataclasses.dataclass
class ConstantLrConfig(base_config.Config):
    """The same learning rate at every step."""

    name: str = "Constant"
    """Name for display."""

    learning_rate: NonNegative = 0.1
    """Learning rate."""


@dataclasses.dataclass
class StepwiseLrConfig(base_config.Config):
    """One learning rate between every two boundaries."""

    name: str = "PiecewiseConstantDecay"
    """Name for display."""

    boundaries: list[Offset] | None = None
    """Increasing steps: the last step at which each value but the last one holds."""

    values: list[NonNegative] | None = None
    """Learning rates, one more than there are boundaries."""

    offset: Offset = 0
    """Step at which the schedule starts."""

    @override
    def check(self) -> Iterator[tuple[str, str]]:
        """Yields a problem if boundaries and values do not fit together."""
        expected = "one value more than there are boundaries"
        yield from _check_boundaries(self.boundaries, self.values, 1, expected)


def _check_boundaries(
    boundaries: list[int] | None, values: list[float] | None, num_more: int, expected: str
) -> Iterator[tuple[str, str]]:
    if boundaries is None or values is None:
        return
    if any(right <= left for left, right in itertools.pairwise(boundaries)):
        yield "boundaries", f"got {errors.show(boundaries)}, expected increasing steps."
    if not values or len(values) != len(boundaries) + num_more:
        got = f"got {len(values)} for {len(boundaries)} boundaries"
        yield "values", f"{got}, expected {expected}."


@dataclasses.dataclass
class _DecayConfig(base_config.Config):
    """A learning rate that falls from its first value."""

    name: str = ""
    """Name for display."""

    initial_learning_rate: NonNegative | None = None
    """Learning rate at the start; at step 1 of one that follows a power of the step."""


@dataclasses.dataclass
class ExponentialLrConfig(_DecayConfig):
    """A learning rate that is multiplied by the same factor in every period."""

    name: str = "ExponentialDecay"
    decay_steps: Period | None = None
    """Steps in which the rate is multiplied by `decay_rate` once."""

    decay_rate: Positive | None = None
    """Positive factor."""

    staircase: bool | None = None
    """Whether the rate changes once in `decay_steps` steps instead of at every step."""

    offset: Offset = 0
    """Step at which the schedule starts."""


@dataclasses.dataclass
class PolynomialLrConfig(_DecayConfig):
    """A learning rate that falls to an end value along a polynomial."""

    name: str = "PolynomialDecay"
    decay_steps: Period | None = None
    """Steps until the end value is reached."""

    end_learning_rate: NonNegative = 0.0001
    """Learning rate at the end."""

    power: Positive = 1.0
    """Positive exponent; 1 is a straight line."""

    cycle: bool = False
    """Whether to start again after `decay_steps` instead of keeping the end value."""

    offset: Offset = 0
    """Step at which the schedule starts."""


@dataclasses.dataclass
class CosineLrConfig(_DecayConfig):
    """A learning rate that falls along half a cosine wave."""

    name: str = "CosineDecay"
    decay_steps: Period | None = None
    """Steps until the end value is reached."""

    alpha: NonNegative = 0.0
    """End value, as a fraction of `initial_learning_rate`."""

    offset: Offset = 0
    """Step at which the schedule starts."""


@dataclasses.dataclass
class DirectPowerLrConfig(_DecayConfig):
    """A learning rate that follows a power of the step."""

    name: str = "DirectPowerDecay"
    power: Finite = -0.5
    """Exponent; -0.5 is the inverse square root."""


@dataclasses.dataclass
class PowerAndLinearDecayLrConfig(_DecayConfig):
    """A learning rate that follows a power of the step and falls to 0 along a line at the end."""

    name: str = "PowerAndLinearDecay"
    total_decay_steps: Period | None = None
    """Steps until the rate is 0, all together."""

    power: Finite = -0.5
    """Exponent; -0.5 is the inverse square root."""

    linear_decay_fraction: UnitInterval = 0.1
    """Part of the steps in which the line falls, in `[0, 1]`; 0 for no line."""

    offset: Offset = 0
    """Step at which the schedule starts."""


@dataclasses.dataclass
class PowerDecayWithOffsetLrConfig(base_config.Config):
    """A learning rate that is held up to a step and follows a power of the steps since then."""

    name: str = "PowerDecayWithOffset"
    """Name for display."""

    initial_learning_rate: NonNegative | None = None
    """Learning rate one step after `offset`, if it is below the limit."""

    power: Finite = -0.5
    """Exponent; -0.5 is the inverse square root."""

    offset: Offset = 0
    """Last step of the held value."""

    pre_offset_learning_rate: NonNegative = 1.0e6
    """The held value, and a limit of all later ones. Set it whenever `offset` is not 0."""


@dataclasses.dataclass
class StepCosineLrConfig(base_config.Config):
    """A learning rate that goes from each value to the next one along half a cosine wave."""

    name: str = "StepCosineDecayWithOffset"
    """Name for display."""

    boundaries: list[Offset] | None = None
    """Increasing steps, one for each value. The first is usually 0."""

    values: list[NonNegative] | None = None
    """Learning rates at the boundaries. The last one holds after the last boundary."""

    offset: Offset = 0
    """Step at which the schedule starts."""

    @override
    def check(self) -> Iterator[tuple[str, str]]:
        """Yields a problem if boundaries and values do not fit together."""
        expected = "one for each of them, and at least one"
        yield from _check_boundaries(self.boundaries, self.values, 0, expected)


@dataclasses.dataclass
class WarmupStableDecayLrConfig(base_config.Config):
    """A learning rate that is held for most of the training and falls in its last part.

    The warm-up comes from `warmup`; its steps are part of `stable_steps`.
    """

    name: str = "WarmupStableDecay"
    """Name for display."""

    initial_learning_rate: NonNegative | None = None
    """Learning rate of the stable part."""

    stable_steps: Steps | None = None
    """Steps of warm-up and stable part together."""

    decay_steps: Period | None = None
    """Steps of the decay."""

    end_learning_rate: NonNegative = 0.0
    """Learning rate at the end."""

    decay_shape: Literal["linear", "cosine", "1-sqrt"] = "linear"
    """How the rate falls, with `p` the part of the decay that is done: by the factor `1 - p`,
    `(1 + cos(pi * p)) / 2` or `1 - sqrt(p)`."""

    offset: Offset = 0
    """Step at which the schedule starts."""


@dataclasses.dataclass
class LinearWarmupConfig(base_config.Config):
    """A warm-up along a straight line."""

    name: str = "linear"
    """Name for display."""

    warmup_learning_rate: NonNegative = 0.0
    """Learning rate at step 0."""

    warmup_steps: Steps | None = None
    """Steps that the warm-up takes; 0 for none."""


@dataclasses.dataclass
class PolynomialWarmupConfig(base_config.Config):
    """A warm-up from almost 0 along a power of the step."""

    name: str = "polynomial"
    """Name for display."""

    power: Positive = 1.0
    """Exponent; 1 is a straight line."""

    warmup_steps: Steps | None = None
    """Steps that the warm-up takes; 0 for none."""


@dataclasses.dataclass
class LrConfig(one_of.OneOfConfig):
    """The learning rate, chosen by `type`."""

    type: str | None = None
    """Which of the schedules below; has to be set."""

    constant: ConstantLrConfig = dataclasses.field(default_factory=ConstantLrConfig)
    """The same at every step."""

    stepwise: StepwiseLrConfig = choices.choice(
        StepwiseLrConfig, "schedules.lr_schedule.PiecewiseConstantDecayWithOffset"
    )
    """One value between every two boundaries."""

    exponential: ExponentialLrConfig = choices.choice(
        ExponentialLrConfig, "schedules.lr_schedule.ExponentialDecayWithOffset"
    )
    """Exponential decay."""

    polynomial: PolynomialLrConfig = choices.choice(
        PolynomialLrConfig, "schedules.lr_schedule.PolynomialDecayWithOffset"
    )
    """Polynomial decay."""

    cosine: CosineLrConfig = choices.choice(
        CosineLrConfig, "schedules.lr_schedule.CosineDecayWithOffset"
    )
    """Cosine decay."""

    power: DirectPowerLrConfig = choices.choice(
        DirectPowerLrConfig, "schedules.lr_schedule.DirectPowerDecay"
    )
    """A power of the step."""

    power_linear: PowerAndLinearDecayLrConfig = choices.choice(
        PowerAndLinearDecayLrConfig, "schedules.lr_schedule.PowerAndLinearDecay"
    )
    """A power of the step that is drawn down to 0 along a line at the end."""

    power_with_offset: PowerDecayWithOffsetLrConfig = choices.choice(
        PowerDecayWithOffsetLrConfig, "schedules.lr_schedule.PowerDecayWithOffset"
    )
    """A held value, then a power of the steps since then."""

    step_cosine_with_offset: StepCosineLrConfig = choices.choice(
        StepCosineLrConfig, "schedules.lr_schedule.StepCosineDecayWithOffset"
    )
    """Half a cosine wave between every two values."""

    wsd: WarmupStableDecayLrConfig = choices.choice(
        WarmupStableDecayLrConfig, "schedules.lr_schedule.WarmupStableDecay"
    )
    """A held value that falls in the last part of the training."""


@dataclasses.dataclass
class WarmupConfig(one_of.OneOfConfig):
    """The warm-up, chosen by `type`; none by default."""

    type: str | None = None
    """Which of the warm-ups below, or None."""

    linear: LinearWarmupConfig = choices.choice(
        LinearWarmupConfig, "schedules.lr_schedule.LinearWarmup"
    )
    """Along a straight line."""

    polynomial: PolynomialWarmupConfig = choices.choice(
        PolynomialWarmupConfig, "schedules.lr_schedule.PolynomialWarmUp"
    )
    """Along a power of the step."""
