"""Learning-rate finders: a short training with a rising rate, or trainings of a narrow model.

Source:
    Smith, 2017, section 3.3 (https://arxiv.org/abs/1506.01186);
    Yang and Hu et al., 2022, algorithm 1 (https://arxiv.org/abs/2203.03466).
"""

import dataclasses
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

import keras
import tensorflow as tf

from quintain import errors
from quintain.distribute import distribution
from quintain.run import run_options, runner_factory
from quintain.settings import config_definitions as cfg

_SMOOTHING: Final = 0.9
"""Weight of the former losses in the mean that is looked at."""

_BLOWN_UP: Final = 4.0
"""The search ends where the mean loss is so many times the best one."""

_SKIPPED: Final = 0.1
"""Part of the steps, at the beginning, in which the mean says little: it is of few batches."""


_MODEL_WIDTHS: Final = ("hidden_size", "width", "embedding_width")
"""Fields of models that are called their width; the first one that there is."""

_SIZES: Final = frozenset(
    {
        *_MODEL_WIDTHS,
        "embedding_size",
        "inner_dim",
        "intermediate_size",
        "mlp_width",
        "num_attention_heads",
        "num_heads",
    }
)
"""Fields that are in proportion to it."""

_RATE_FIELDS: Final = ("initial_learning_rate", "learning_rate")

_LAST: Final = 10
"""A training's loss is the mean over one in so many steps, the last ones."""


@dataclasses.dataclass(frozen=True)
class Found:
    """Result of a search for a learning rate."""

    suggestion: float | None
    """The learning rate where the loss fell fastest; None if it never fell."""

    best: float
    """The learning rate of the lowest loss: the largest that is of use."""

    learning_rates: tuple[float, ...]
    """The rates that were tried."""

    losses: tuple[float, ...]
    """The training loss at each of them, averaged over the last steps."""

    is_blown_up: bool
    """Whether the loss rose so much that the search ended early."""


def find(
    params: cfg.ExperimentConfig,
    scratch_dir: str,
    *,
    lowest: float = 1e-7,
    highest: float = 1.0,
    num_steps: int = 100,
    report: Callable[[int, float, float], Any] | None = None,
) -> Found:
    """Trains for some steps with a learning rate that rises by the same factor in each.

    Args:
        params: The experiment; nothing of it changes.
        scratch_dir: Directory for what the task has to write, such as a vocabulary.
        lowest: First learning rate.
        highest: Last learning rate.
        num_steps: Steps.
        report: Is told the step, the learning rate and the mean loss of each step.

    Raises:
        ConfigError: If the range is empty, or the learning rate is none that can be set.
        QuintainError: For whatever would stop a training.
    """
    if not 0 < lowest < highest or num_steps < 2:
        raise errors.ConfigError(
            f"got learning rates from {lowest:g} to {highest:g} in {num_steps} steps, expected a "
            "rising range above 0 and at least 2 steps."
        )
    factor = (highest / lowest) ** (1 / (num_steps - 1))
    rising = {"initial_learning_rate": lowest, "decay_steps": 1, "decay_rate": factor}
    params = params.replace(
        trainer={
            "optimizer_config": {
                "learning_rate": {"type": "exponential", "exponential": rising},
                "warmup": {"type": None},
            },
            "train_steps": num_steps,
            "recovery_max_trials": -1,
            "loggers": [],
            "actions": [],
        }
    )
    strategy = distribution.build_strategy(params.runtime)
    with distribution.precision(params.runtime), strategy.scope():
        options = run_options.RunOptions(save_summary=False)
        trainer = runner_factory.build_runner(
            strategy, "train", params, scratch_dir, options
        ).trainer
        mean, blown_up = 0.0, False
        rates: list[float] = []
        losses: list[float] = []
        for step in range(num_steps):
            logs = trainer.train(tf.constant(1, tf.int32)) or {}
            loss = float(logs[trainer.train_loss.name])
            mean = _SMOOTHING * mean + (1 - _SMOOTHING) * loss
            smooth = mean / (1 - _SMOOTHING ** (step + 1))
            limit = _BLOWN_UP * min(losses[int(_SKIPPED * num_steps) :], default=math.inf)
            blown_up = not (math.isfinite(loss) and smooth <= limit)
            if blown_up:
                break
            rates.append(lowest * factor**step)
            losses.append(smooth)
            if report is not None:
                report(step + 1, rates[-1], smooth)
    return choose(rates, losses, is_blown_up=blown_up)


def find_narrow(
    params: cfg.ExperimentConfig,
    scratch_dir: str,
    base: Mapping[str, Any],
    learning_rates: Sequence[float],
    *,
    num_steps: int,
    report: Callable[[float, float], Any] | None = None,
) -> Found:
    """Trains a narrower model once with each learning rate, from the same seed.

    Args:
        params: The experiment; nothing of it changes.
        scratch_dir: Directory for what the task has to write, such as a vocabulary.
        base: Fields of `task.model` that make it narrow; see `narrow`.
        learning_rates: The rates, rising.
        num_steps: Steps of each training.
        report: Is told each learning rate and its loss, the mean over the last steps.

    Raises:
        ConfigError: If the learning rate is none that can be set, or the model has no `base`.
        TrainingDivergedError: If no training had a finite loss.
        QuintainError: For whatever would stop a training.
    """
    params = params.replace(
        task={"model": base},
        trainer={
            "parametrization": {"type": "mup", "base": base},
            "train_steps": num_steps,
            "recovery_max_trials": -1,
            "loggers": [],
            "actions": [],
        },
    )
    *_, kind, field = find_rate_field(params)[0].split(".")
    seed = params.runtime.seed or 0
    strategy = distribution.build_strategy(params.runtime)
    options = run_options.RunOptions(save_summary=False)
    last = max(num_steps // _LAST, 1)
    losses = []
    for rate in learning_rates:
        chosen = {"learning_rate": {kind: {field: rate}}}
        params.override({"trainer": {"optimizer_config": chosen}})
        with distribution.precision(params.runtime), strategy.scope():
            keras.utils.set_random_seed(seed)
            runner = runner_factory.build_runner(strategy, "train", params, scratch_dir, options)
            trainer = runner.trainer
            if num_steps > last:
                trainer.train(tf.constant(num_steps - last))
            logs = trainer.train(tf.constant(last)) or {}
        losses.append(float(logs[trainer.train_loss.name]))
        if report is not None:
            report(rate, losses[-1])
    finite = [loss for loss in losses if math.isfinite(loss)]
    if not finite:
        raise errors.TrainingDivergedError(
            "The training loss was a finite number at none of the learning rates. Look at the "
            "data, or try a smaller --highest."
        )
    best = learning_rates[losses.index(min(finite))]
    return Found(best, best, tuple(learning_rates), tuple(losses), len(finite) < len(losses))


def find_rate_field(params: cfg.ExperimentConfig) -> tuple[str, float]:
    """Returns the dotted path of an experiment's learning rate, and its value.

    Raises:
        ConfigError: If the rate is not one number.
    """
    config = params.trainer.optimizer_config.learning_rate
    for name in _RATE_FIELDS:
        value = None if config.type is None else getattr(config.get(), name, None)
        if isinstance(value, float) and value > 0.0:
            return f"trainer.optimizer_config.learning_rate.{config.type}.{name}", value
    raise errors.ConfigError(
        f"trainer.optimizer_config.learning_rate.type: got {config.type!r}, which has no single "
        "rate above 0. Use one such as cosine or constant."
    )


def list_rates(lowest: float, highest: float) -> list[float]:
    """Returns learning rates from the lowest by factors of two.

    Raises:
        ConfigError: If the range is empty.

    Example:
        >>> list_rates(0.001, 0.005)
        [0.001, 0.002, 0.004]
    """
    if not 0 < lowest <= highest:
        raise errors.ConfigError(
            f"got learning rates from {lowest:g} to {highest:g}, expected a range above 0."
        )
    return [lowest * 2**power for power in range(int(math.log2(highest / lowest) + 1e-6) + 1)]


def narrow(model: Any, width: int) -> dict[str, Any]:
    """Returns the fields of a model's config that make it so wide, sizes in proportion.

    Raises:
        ConfigError: If no field is known as its width, it is narrower already, or a size can't be
            divided so.

    Example:
        >>> from quintain.config import base_config
        >>> model = base_config.Config({"width": 256, "num_heads": 8, "vit": {"mlp_width": 512}})
        >>> narrow(model, 64)
        {'width': 64, 'num_heads': 2, 'vit': {'mlp_width': 128}}
    """
    sizes = _pick_sizes({} if model is None else model.as_dict())
    found = dict(_list_sizes(sizes))
    own = next((found[name] for name in _MODEL_WIDTHS if name in found), 0)
    if own <= width:
        raise errors.ConfigError(
            f"--proxy-width: got {width}, but the model is {own or 'of no known width'}, by one of "
            f"task.model's {', '.join(_MODEL_WIDTHS)}. Give a smaller width, or set "
            "trainer.parametrization.base yourself."
        )

    def scale(part: Any) -> Any:
        if isinstance(part, dict):
            return {name: scale(value) for name, value in part.items()}
        if isinstance(part, list):
            return [scale(value) for value in part]
        if part * width % own:
            raise errors.ConfigError(
                f"--proxy-width: got {width}, which is {width}/{own} of the model's width, but "
                f"that part of another size, {part}, is no whole number. Give another width."
            )
        return part * width // own

    scaled: dict[str, Any] = scale(sizes)
    return scaled


def _pick_sizes(plain: Mapping[str, Any]) -> dict[str, Any]:
    """Returns what is a size in a plain config, without the choices that were not taken."""
    chosen = {value for value in plain.values() if isinstance(value, str)} & plain.keys()
    picked: dict[str, Any] = {}
    for name, value in plain.items():
        if isinstance(value, Mapping) and (not chosen or name in chosen):
            picked[name] = _pick_sizes(value)
        elif isinstance(value, list | tuple) and all(isinstance(one, Mapping) for one in value):
            picked[name] = [_pick_sizes(one) for one in value]
        elif name in _SIZES and isinstance(value, int) and value:
            picked[name] = value
    return {name: value for name, value in picked.items() if value}


def _list_sizes(sizes: Any) -> Iterator[tuple[str, int]]:
    for name, value in sizes.items():
        if isinstance(value, dict):
            yield from _list_sizes(value)
        elif isinstance(value, int):
            yield name, value


def choose(
    learning_rates: Sequence[float], losses: Sequence[float], *, is_blown_up: bool = False
) -> Found:
    """Returns the learning rate at which the loss fell fastest, by its logarithm.

    Args:
        learning_rates: Rates, rising by the same factor.
        losses: The loss at each of them.
        is_blown_up: Whether there were to be more.

    Raises:
        TrainingDivergedError: If there is no loss.

    Example:
        >>> choose([0.001, 0.01, 0.1, 1.0, 10.0], [5.0, 4.9, 3.0, 2.8, 4.0]).suggestion
        0.01
    """
    if not losses:
        raise errors.TrainingDivergedError(
            "The training loss was no finite number at the lowest learning rate already. Look at "
            "the data."
        )
    first = min(int(_SKIPPED * len(losses)), len(losses) - 1)
    best = losses.index(min(losses[first:]), first)
    falls = [losses[index] - losses[index + 1] for index in range(first, best)]
    steepest = max(range(len(falls)), key=falls.__getitem__, default=None)
    suggestion = None if steepest is None else learning_rates[first + steepest]
    return Found(
        suggestion, learning_rates[best], tuple(learning_rates), tuple(losses), is_blown_up
    )
