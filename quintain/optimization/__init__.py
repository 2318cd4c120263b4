"""Optimizers and learning rates, and the configs that describe them.

Names load their modules on first use: the configs do not wait for TensorFlow. The configs of the
choices, and what they describe, are known by the choices themselves.
"""

import dataclasses
import functools
import importlib
import pkgutil

from quintain import lazy_modules

_HOMES = {
    "configs.optimization_config": (
        "LrConfig",
        "OptimizationConfig",
        "OptimizerConfig",
        "WarmupConfig",
    ),
    "configs.optimizer_config": ("BaseOptimizerConfig", "EMAConfig"),
    "ema": ("ExponentialMovingAverage",),
    "gradient_accumulation": ("GradientAccumulation",),
    "loss_scaling": ("FixedLossScaleOptimizer", "LossScaleOptimizer"),
    "optimizer_factory": ("OptimizerFactory", "register_optimizer_cls"),
}


@functools.cache
def _find_choices() -> dict[str, str]:
    """Returns the modules of all configs of choices, and of what they describe."""
    choices = importlib.import_module(f"{__name__}.configs.choices")
    config = importlib.import_module(f"{__name__}.configs.optimization_config")
    homes = {}
    for config_cls in (config.OptimizerConfig, config.LrConfig, config.WarmupConfig):
        for field in dataclasses.fields(config_cls):
            if isinstance(field.type, type):
                homes[field.type.__name__] = field.type.__module__
        for path in choices.find_builders(config_cls).values():
            module, _, name = path.rpartition(".")
            homes[name] = module
    return homes


__getattr__, __dir__ = lazy_modules.attach(
    __name__,
    (module.name for module in pkgutil.iter_modules(__path__)),
    names=_HOMES,
    find_names=_find_choices,
)
