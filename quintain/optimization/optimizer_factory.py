"""Builds the learning rate and the optimizer that a config describes.

Example:
    >>> config = optimization_config.OptimizationConfig({
    ...     "optimizer": {"type": "sgd", "sgd": {"momentum": 0.9}},
    ...     "learning_rate": {"type": "constant", "constant": {"learning_rate": 0.1}},
    ...     "warmup": {"type": "linear", "linear": {"warmup_steps": 100}},
    ... })
    >>> factory = OptimizerFactory(config)
    >>> optimizer = factory.build_optimizer(factory.build_learning_rate())
    >>> float(optimizer.learning_rate_schedule(50))
    0.05...
"""

import dataclasses
import functools
from collections.abc import Callable, Sequence
from typing import Any, Final

import keras

from quintain import errors, registry
from quintain.config import base_config, gin_io, one_of
from quintain.optimization import ema, fused_optimizer
from quintain.optimization.configs import choices, optimization_config
from quintain.optimization.schedules import lr_schedule

CONFIG_PATH: Final = "trainer.optimizer_config"
"""Where the config lies in an experiment's config; error messages start with it."""

LearningRateBuilder = Callable[..., lr_schedule.LearningRate]

OPTIMIZERS: Final = registry.Registry[str, Callable[..., keras.optimizers.Optimizer]]("optimizer")
"""Optimizers by `optimizer.type`. They take the learning rate and the fields of their config."""

LEARNING_RATES: Final = registry.Registry[str, LearningRateBuilder]("learning rate")
"""Learning rates by `learning_rate.type`. They take the fields of their config."""

WARMUPS: Final = registry.Registry[str, type[lr_schedule.Warmup]]("warm-up")
"""Warm-ups by `warmup.type`. They take the wrapped learning rate and the fields of their config."""

SHARED_OPTIMIZERS: Final = OPTIMIZERS
"""The reference's name for `OPTIMIZERS`. There is one implementation of each rule."""

LEGACY_OPTIMIZERS_CLS: Final = OPTIMIZERS
"""Another of the reference's names for `OPTIMIZERS`."""

NEW_OPTIMIZERS_CLS: Final = OPTIMIZERS
"""Another of the reference's names for `OPTIMIZERS`."""

LR_CLS: Final = LEARNING_RATES
"""The reference's name for `LEARNING_RATES`."""

WARMUP_CLS: Final = WARMUPS
"""The reference's name for `WARMUPS`."""

for _kind, _config_cls in (
    (OPTIMIZERS, optimization_config.OptimizerConfig),
    (LEARNING_RATES, optimization_config.LrConfig),
    (WARMUPS, optimization_config.WarmupConfig),
):
    for _name, _path in choices.find_builders(_config_cls).items():
        _kind.register_later(_name, functools.partial(choices.load, _path))


@LEARNING_RATES.register("constant")
def _get_constant(learning_rate: float, name: str) -> float:
    del name  # A number has none.
    return learning_rate


def register_optimizer_cls(
    key: str,
    optimizer_config_cls: Callable[..., keras.optimizers.Optimizer],
    use_legacy_optimizer: bool = True,
) -> None:
    """Makes an optimizer known under a name.

    To choose it in a config, `OptimizerConfig` needs a field of the same name: subclass it, as
    `examples/05_own_optimizer.py` does.

    Args:
        key: The name, a value of `optimizer.type`.
        optimizer_config_cls: Class or function that takes `learning_rate` and those fields of its
            config that are not None. An optimizer of Keras will do.
        use_legacy_optimizer: No difference; accepted for callers of the reference library.

    Raises:
        RegistryError: If the name is taken.
    """
    del use_legacy_optimizer
    if key in OPTIMIZERS:
        raise errors.RegistryError(
            f"Optimizer {key} already registered, as {OPTIMIZERS[key]!r}; choose another name for "
            f"{optimizer_config_cls!r}."
        )
    OPTIMIZERS.register(key)(optimizer_config_cls)


class OptimizerFactory:
    """Builds the learning rate and the optimizer that a config describes."""

    def __init__(self, config: optimization_config.OptimizationConfig) -> None:
        """Checks the config.

        Raises:
            ConfigError: If the optimizer or the learning rate is not chosen, or a value is wrong.
        """
        _check(config)
        self._config = config

    def build_learning_rate(self) -> lr_schedule.LearningRate:
        """Builds the learning rate, with its warm-up.

        Returns:
            A schedule, or a float if the learning rate is the same at every step.
        """
        config = self._config.learning_rate
        rate = LEARNING_RATES.lookup(str(config.type))(**_get_arguments(config))
        warmup = self._config.warmup
        if warmup.type is None:
            return rate
        return WARMUPS.lookup(str(warmup.type))(rate, **_get_arguments(warmup))

    @gin_io.configurable(module=f"{__name__}.OptimizerFactory")
    def build_optimizer(
        self,
        lr: lr_schedule.LearningRate,
        gradient_aggregator: fused_optimizer.GradientFn | None = None,
        gradient_transformers: Sequence[fused_optimizer.GradientFn] | None = None,
        postprocessor: Callable[[Any], Any] | None = None,
        use_legacy_optimizer: bool = True,
    ) -> keras.optimizers.Optimizer:
        """Builds the optimizer, and the average of its weights where the config has one.

        Args:
            lr: What `build_learning_rate` returned, or another schedule or constant.
            gradient_aggregator: Takes and returns (gradient, variable) pairs in the context of a
                replica; replaces the sum over the replicas.
            gradient_transformers: Take and return (gradient, variable) pairs, one after the other,
                after the sum and before clipping.
            postprocessor: Takes the optimizer and returns the one to use.
            use_legacy_optimizer: False refuses `decay`, which should be part of the learning rate.
                No other difference; accepted for callers of the reference library.

        Returns:
            An optimizer that sums gradients over replicas, then clips, then updates.

        Raises:
            TypeError: If what is built is not a Keras optimizer, or does not take the functions of
                gradients.
            ConfigError: If there is a `decay` without `use_legacy_optimizer`.
        """
        config = self._config.optimizer
        arguments = _get_arguments(config)
        if not use_legacy_optimizer and arguments.get("decay"):
            raise errors.ConfigError(
                f"{CONFIG_PATH}.optimizer.{config.type}.decay: got {arguments['decay']!r}, "
                "expected 0 with use_legacy_optimizer=False. Make it part of the learning rate."
            )
        if gradient_aggregator is not None:
            arguments["gradient_aggregator"] = gradient_aggregator
        if gradient_transformers is not None:
            arguments["gradient_transformers"] = tuple(gradient_transformers)
        optimizer = _build(str(config.type), lr, arguments)
        if self._config.ema is not None:
            settings = base_config.used_values(self._config.ema)
            optimizer = ema.ExponentialMovingAverage(optimizer, **settings)
        if postprocessor is not None:
            optimizer = postprocessor(optimizer)
        if not isinstance(optimizer, keras.optimizers.Optimizer):
            raise TypeError(
                f"{CONFIG_PATH}.optimizer: got {optimizer!r} from building "
                f"{config.type!r}, expected a keras.optimizers.Optimizer."
            )
        return optimizer


def _build(
    key: str, rate: lr_schedule.LearningRate, arguments: dict[str, Any]
) -> keras.optimizers.Optimizer:
    builder = OPTIMIZERS.lookup(key)
    try:
        return builder(**(arguments | {"learning_rate": rate}))
    except (TypeError, ValueError) as error:
        for name in ("gradient_aggregator", "gradient_transformers"):
            if name in arguments and name in str(error):
                raise TypeError(
                    f"{name}: {key!r}, which is {builder!r}, takes no such functions. Subclasses "
                    "of quintain.optimization.fused_optimizer.FusedOptimizer do."
                ) from error
        raise


def _get_arguments(config: one_of.OneOfConfig) -> dict[str, Any]:
    """Returns the fields of the chosen sub-config that are set."""
    chosen = base_config.used_values(config.get())
    return {key: value for key, value in chosen.items() if value is not None}


def _check(config: optimization_config.OptimizationConfig) -> None:
    _check_choice(config.optimizer, "optimizer")
    _check_choice(config.learning_rate, "learning_rate")
    _check_is_set(config.learning_rate, "learning_rate")
    if config.warmup.type is not None:
        _check_choice(config.warmup, "warmup")
        _check_is_set(config.warmup, "warmup")
    try:
        config.validate()
    except errors.ConfigError as error:
        if not error.problems:
            raise
        raise errors.ConfigError.from_problems(
            [
                dataclasses.replace(problem, path=f"{CONFIG_PATH}.{problem.path}")
                for problem in error.problems
            ]
        ) from None


def _check_choice(config: one_of.OneOfConfig, name: str) -> None:
    if config.type is None:
        raise errors.ConfigError(
            f"{CONFIG_PATH}.{name}.type: got None, expected one of "
            f"{', '.join(map(repr, config.choices()))}."
        )
    for field, message in config.check():
        raise errors.ConfigError(f"{CONFIG_PATH}.{name}.{field}: {message}")


def _check_is_set(config: one_of.OneOfConfig, name: str) -> None:
    """Checks that the chosen sub-config has no None, but where None is a choice of its own."""
    for key, value in config.get().as_dict().items():
        if value is None and key != "staircase":
            raise errors.ConfigError(
                f"{CONFIG_PATH}.{name}.{config.type}.{key}: got None, expected a value; "
                f"{config.type!r} can't do without."
            )
