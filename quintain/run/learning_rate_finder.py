"""Learning-rate finder: a short training with a rising rate.

Source:
    Smith, 2017, section 3.3 (https://arxiv.org/abs/1506.01186).
"""

import dataclasses
import math
from collections.abc import Callable, Sequence
from typing import Any, Final

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
