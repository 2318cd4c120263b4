"""Configs of the two forms of Adafactor."""

import dataclasses

from quintain.config import base_config
from quintain.optimization.configs import base_optimizer_config
from quintain.optimization.configs.ranges import Fraction, Negative, NonNegative, Positive, Steps


@dataclasses.dataclass
class AdafactorConfig(base_optimizer_config.BaseOptimizerConfig):
    """Adafactor, as T5 was trained with."""

    name: str = "Adafactor"
    """Name of the optimizer."""

    factored: bool = True
    """Whether averages of large matrices are kept by rows and columns."""

    multiply_by_parameter_scale: bool = True
    """Whether steps are relative to the size of a weight."""

    beta1: Fraction | None = None
    """Decay of the mean of updates, in `[0, 1)`. None for no momentum."""

    decay_rate: Positive = 0.8
    """How fast the averages come to rest: their decay in update `t` is `1 - t ** -decay_rate`."""

    step_offset: Steps = 0
    """Updates that were done before, when a training is continued by another."""

    clipping_threshold: NonNegative = 1.0
    """Largest root mean square of an update; 0 for no limit."""

    min_dim_size_to_factor: Steps = 128
    """Least size of both axes of a weight that is factored."""

    epsilon1: Positive = 1e-30
    """Added to squared gradients."""

    epsilon2: Positive = 1e-3
    """Least size of a weight, for `multiply_by_parameter_scale`."""

    weight_decay: NonNegative | None = None
    """Fraction of a weight that is subtracted at each update, times the learning rate."""

    include_in_weight_decay: list[str] | None = None
    """Regular expressions of the only paths that decay. None for all."""


@dataclasses.dataclass
class AdafactorKerasConfig(base_optimizer_config.BaseOptimizerConfig):
    """Adafactor, as Keras has it."""

    name: str = "Adafactor"
    """Name of the optimizer."""

    learning_rate: NonNegative = base_config.unused(
        0.001, "Set `learning_rate` beside `optimizer`."
    )
    """Not used: the learning rate is a config of its own."""

    beta_2_decay: Negative = -0.8
    """How fast the averages come to rest: their decay in update `t` is `1 - t ** beta_2_decay`."""

    epsilon_1: Positive = 1e-30
    """Added to squared gradients."""

    epsilon_2: Positive = 1e-3
    """Least size of a weight."""

    clip_threshold: Positive = 1.0
    """Largest root mean square of an update."""

    relative_step: bool = True
    """Whether the learning rate is at most `1 / sqrt(t)` in update `t`."""

    weight_decay: NonNegative | None = None
    """Fraction of a weight that is subtracted at each update, times the learning rate."""

    exclude_from_weight_decay: list[str] | None = None
    """Regular expressions searched for in a variable's path; a match does not decay."""
