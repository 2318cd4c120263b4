"""Optimizers and learning rates, and the configs that describe them.

Names load their modules on first use: the configs do not wait for TensorFlow.
"""

import importlib
from typing import Any

_CONFIGS = "quintain.optimization.configs"
_HOMES = {
    f"{_CONFIGS}.optimization_config": (
        "LrConfig",
        "OptimizationConfig",
        "OptimizerConfig",
        "WarmupConfig",
    ),
    f"{_CONFIGS}.optimizer_config": (
        "AdafactorConfig",
        "AdafactorKerasConfig",
        "AdagradConfig",
        "AdamConfig",
        "AdamExperimentalConfig",
        "AdamWeightDecayConfig",
        "AdamWeightDecayExperimentalConfig",
        "BaseOptimizerConfig",
        "EMAConfig",
        "LAMBConfig",
        "LARSConfig",
        "RMSPropConfig",
        "SGDConfig",
        "SGDExperimentalConfig",
    ),
    f"{_CONFIGS}.keras_optimizer_config": (
        "AdadeltaConfig",
        "AdamaxConfig",
        "FtrlConfig",
        "LionConfig",
        "MuonConfig",
        "NadamConfig",
    ),
    f"{_CONFIGS}.learning_rate_config": (
        "ConstantLrConfig",
        "CosineLrConfig",
        "DirectPowerLrConfig",
        "ExponentialLrConfig",
        "LinearWarmupConfig",
        "PolynomialLrConfig",
        "PolynomialWarmupConfig",
        "PowerAndLinearDecayLrConfig",
        "PowerDecayWithOffsetLrConfig",
        "StepCosineLrConfig",
        "WarmupStableDecayLrConfig",
        "StepwiseLrConfig",
    ),
    "quintain.optimization.optimizer_factory": ("OptimizerFactory", "register_optimizer_cls"),
    "quintain.optimization.lr_schedule": (
        "CosineDecayWithOffset",
        "DirectPowerDecay",
        "ExponentialDecayWithOffset",
        "PiecewiseConstantDecayWithOffset",
        "PolynomialDecayWithOffset",
    ),
    "quintain.optimization.phased_lr_schedule": (
        "PowerAndLinearDecay",
        "PowerDecayWithOffset",
        "StepCosineDecayWithOffset",
        "WarmupStableDecay",
    ),
    "quintain.optimization.lr_warmup": ("LinearWarmup", "PolynomialWarmUp"),
    "quintain.optimization.adadelta": ("Adadelta",),
    "quintain.optimization.adafactor": ("Adafactor", "AdafactorKeras"),
    "quintain.optimization.adagrad": ("Adagrad",),
    "quintain.optimization.adamax": ("Adamax",),
    "quintain.optimization.ftrl": ("Ftrl",),
    "quintain.optimization.lion": ("Lion",),
    "quintain.optimization.muon": ("Muon",),
    "quintain.optimization.nadam": ("Nadam",),
    "quintain.optimization.lamb": ("LAMB",),
    "quintain.optimization.lars": ("LARS",),
    "quintain.optimization.rmsprop": ("RMSprop",),
    "quintain.optimization.adam": ("Adam", "AdamW", "AdamWeightDecay"),
    "quintain.optimization.ema": ("ExponentialMovingAverage",),
    "quintain.optimization.gradient_accumulation": ("GradientAccumulation",),
    "quintain.optimization.loss_scaling": ("FixedLossScaleOptimizer", "LossScaleOptimizer"),
    "quintain.optimization.sgd": ("SGD",),
}
_NAMES = {name: module for module, names in _HOMES.items() for name in names}
_MODULES = frozenset(
    {
        "adadelta",
        "adafactor",
        "adagrad",
        "adam",
        "adamax",
        "configs",
        "ema",
        "ftrl",
        "fused_optimizer",
        "gradient_accumulation",
        "gradient_clipping",
        "lamb",
        "lars",
        "lion",
        "lr_schedule",
        "lr_warmup",
        "muon",
        "nadam",
        "optimizer_factory",
        "phased_lr_schedule",
        "rmsprop",
        "privacy",
        "sgd",
    }
)


def __getattr__(name: str) -> Any:
    if name in _NAMES:
        return getattr(importlib.import_module(_NAMES[name]), name)
    if name in _MODULES:
        return importlib.import_module(f"{__name__}.{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*_NAMES, *_MODULES})
