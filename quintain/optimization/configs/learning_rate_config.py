"""Configs of learning-rate schedules and warm-ups.

The formulas are in `quintain.optimization.lr_schedule` and `quintain.optimization.lr_warmup`. A
field that is None by default has to be set when its schedule is chosen.
"""

import dataclasses
import itertools
from collections.abc import Iterator

from typing_extensions import override

from quintain.config import base_config
from quintain.optimization.configs.ranges import Finite, NonNegative, Period, Positive, Steps


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

    boundaries: list[int] | None = None
    """Increasing steps: the last step at which each value but the last one holds."""

    values: list[NonNegative] | None = None
    """Learning rates, one more than there are boundaries."""

    offset: int = 0
    """Step at which the schedule starts."""

    @override
    def check(self) -> Iterator[tuple[str, str]]:
        """Yields a problem if boundaries and values do not fit together."""
        boundaries, values = self.boundaries, self.values
        if boundaries is None or values is None:
            return
        if any(right <= left for left, right in itertools.pairwise(boundaries)):
            yield "boundaries", f"got {boundaries!r}, expected increasing steps."
        if len(values) != len(boundaries) + 1:
            yield (
                "values",
                f"got {len(values)} for {len(boundaries)} boundaries, expected one value more than "
                "there are boundaries.",
            )


@dataclasses.dataclass
class ExponentialLrConfig(base_config.Config):
    """A learning rate that is multiplied by the same factor in every period."""

    name: str = "ExponentialDecay"
    """Name for display."""

    initial_learning_rate: NonNegative | None = None
    """Learning rate at the start."""

    decay_steps: Period | None = None
    """Steps in which the rate is multiplied by `decay_rate` once."""

    decay_rate: Positive | None = None
    """Positive factor."""

    staircase: bool | None = None
    """Whether the rate changes once in `decay_steps` steps instead of at every step."""

    offset: int = 0
    """Step at which the schedule starts."""


@dataclasses.dataclass
class PolynomialLrConfig(base_config.Config):
    """A learning rate that falls to an end value along a polynomial."""

    name: str = "PolynomialDecay"
    """Name for display."""

    initial_learning_rate: NonNegative | None = None
    """Learning rate at the start."""

    decay_steps: Period | None = None
    """Steps until the end value is reached."""

    end_learning_rate: NonNegative = 0.0
    """Learning rate at the end."""

    power: Positive = 1.0
    """Positive exponent; 1 is a straight line."""

    cycle: bool = False
    """Whether to start again after `decay_steps` instead of keeping the end value."""

    offset: int = 0
    """Step at which the schedule starts."""


@dataclasses.dataclass
class CosineLrConfig(base_config.Config):
    """A learning rate that falls along half a cosine wave."""

    name: str = "CosineDecay"
    """Name for display."""

    initial_learning_rate: NonNegative | None = None
    """Learning rate at the start."""

    decay_steps: Period | None = None
    """Steps until the end value is reached."""

    alpha: NonNegative = 0.0
    """End value, as a fraction of `initial_learning_rate`."""

    offset: int = 0
    """Step at which the schedule starts."""


@dataclasses.dataclass
class DirectPowerLrConfig(base_config.Config):
    """A learning rate that follows a power of the step."""

    name: str = "DirectPowerDecay"
    """Name for display."""

    initial_learning_rate: NonNegative | None = None
    """Learning rate at step 1."""

    power: Finite = -0.5
    """Exponent; -0.5 is the inverse square root."""


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
