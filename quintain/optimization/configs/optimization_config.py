"""Config of everything between a gradient and a changed weight.

Example:
    >>> config = OptimizationConfig({
    ...     "optimizer": {"type": "adamw", "adamw": {"weight_decay_rate": 0.01}},
    ...     "learning_rate": {"type": "constant", "constant": {"learning_rate": 1e-4}},
    ... })
    >>> config.optimizer.get().weight_decay_rate
    0.01
"""

import dataclasses

from quintain.config import base_config
from quintain.optimization.configs import keras_optimizer_config, learning_rate_config
from quintain.optimization.configs import optimizer_config as opt_cfg
from quintain.optimization.configs.ranges import Period

OptimizerConfig = keras_optimizer_config.OptimizerConfig
LrConfig = learning_rate_config.LrConfig
WarmupConfig = learning_rate_config.WarmupConfig


@dataclasses.dataclass
class OptimizationConfig(base_config.Config):
    """Optimizer, learning rate, warm-up and weight averaging."""

    optimizer: OptimizerConfig = dataclasses.field(default_factory=OptimizerConfig)
    """The optimizer."""

    ema: opt_cfg.EMAConfig | None = None
    """Moving average of the weights, which evaluations and exports use. None for no average."""

    learning_rate: LrConfig = dataclasses.field(default_factory=LrConfig)
    """The learning rate as a function of the step."""

    warmup: WarmupConfig = dataclasses.field(default_factory=WarmupConfig)
    """How the first steps lead up to the learning rate."""

    gradient_accumulation_steps: Period = 1
    """Batches whose gradients are added up for one update. A step takes so many batches."""
