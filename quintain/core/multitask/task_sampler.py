"""Sampling weights of tasks that take turns."""

import abc
from collections.abc import Mapping

import tensorflow as tf
from typing_extensions import override

from quintain import errors
from quintain.core.multitask import configs

_ANNEALING_RANGE = 0.8


class TaskSampler(tf.Module, metaclass=abc.ABCMeta):
    """Gives the distribution from which the task of a step is drawn."""

    def __init__(self, task_weights: Mapping[str, float]) -> None:
        """Stores the weights.

        Args:
            task_weights: Weight of every task, at least 0; one must be more.

        Raises:
            ConfigError: If a weight is negative, or all are 0.
        """
        super().__init__()
        for name, weight in task_weights.items():
            if weight < 0:
                raise errors.ConfigError(
                    f"task_weights[{name!r}]: got {weight!r}, expected a number >= 0."
                )
        if not any(task_weights.values()):
            raise errors.ConfigError(
                f"task_weights: got {dict(task_weights)!r}; one must be more than 0."
            )
        self._task_weights = dict(task_weights)

    @property
    def task_weights(self) -> dict[str, float]:
        """Weight of every task, by its name."""
        return self._task_weights

    @abc.abstractmethod
    def task_cumulative_distribution(self, global_step: tf.Tensor) -> tf.Tensor:
        """Returns the probability of drawing a task or one of those before it.

        Args:
            global_step: `[]` integer, the steps done so far.

        Returns:
            `[number of tasks]` float32, rising to 1, in the order of `task_weights`.
        """

    def _cumulate_powers(self, alpha: tf.Tensor | float) -> tf.Tensor:
        """Returns the cumulative distribution in proportion to `weight ** alpha`."""
        weights = tf.constant(list(self._task_weights.values()), tf.float32)
        # A power of 0 would make 1 of a weight of 0, which stands for "never".
        sizes = tf.where(weights > 0, tf.pow(weights, tf.cast(alpha, tf.float32)), 0.0)
        return tf.cumsum(sizes / tf.reduce_sum(sizes))


class UniformTaskSampler(TaskSampler):
    """Draws all tasks equally often, whatever their weights.

    Example:
        >>> sampler = UniformTaskSampler({"a": 1.0, "b": 3.0})
        >>> sampler.task_cumulative_distribution(tf.constant(0)).numpy().tolist()
        [0.5, 1.0]
    """

    @override
    def task_cumulative_distribution(self, global_step: tf.Tensor) -> tf.Tensor:
        del global_step
        count = len(self._task_weights)
        return tf.cumsum(tf.fill([count], 1.0 / count))


class ProportionalTaskSampler(TaskSampler):
    """Draws tasks in proportion to a power of their weights.

    Example:
        >>> sampler = ProportionalTaskSampler({"a": 1.0, "b": 3.0})
        >>> sampler.task_cumulative_distribution(tf.constant(0)).numpy().tolist()
        [0.25, 1.0]
    """

    def __init__(self, task_weights: Mapping[str, float], alpha: float = 1.0) -> None:
        """Stores the power.

        Args:
            task_weights: Weight of every task, at least 0; one must be more.
            alpha: The power. 1 draws in proportion to the weights, 0 draws uniformly.
        """
        super().__init__(task_weights)
        self._alpha = alpha

    @override
    def task_cumulative_distribution(self, global_step: tf.Tensor) -> tf.Tensor:
        del global_step
        return self._cumulate_powers(self._alpha)


class AnnealingTaskSampler(TaskSampler):
    """Draws large tasks often at first, and all tasks more equally towards the end.

    The power of the weights in epoch `e`, counted from 0, of `E` epochs is
    `1 - 0.8 (e - 1) / (E - 1)`, as in the reference: the paper counts epochs from 1. It is 1 if
    there is only one epoch, and does not change any more after the last one.

    Source:
        Stickland and Murray, 2019, section 4.4 (https://arxiv.org/abs/1902.02671).
    """

    def __init__(
        self, task_weights: Mapping[str, float], steps_per_epoch: float, total_steps: float
    ) -> None:
        """Stores the length of the training.

        Args:
            task_weights: Weight of every task, at least 0; one must be more.
            steps_per_epoch: Steps after which the power changes.
            total_steps: Steps of the training.
        """
        super().__init__(task_weights)
        self._steps_per_epoch = float(steps_per_epoch)
        self._total_epochs = float(total_steps) / self._steps_per_epoch

    @override
    def task_cumulative_distribution(self, global_step: tf.Tensor) -> tf.Tensor:
        if self._total_epochs <= 1:
            return self._cumulate_powers(1.0)
        epoch = tf.floor(tf.cast(global_step, tf.float32) / self._steps_per_epoch)
        epoch = tf.minimum(epoch, self._total_epochs)
        return self._cumulate_powers(
            1.0 - _ANNEALING_RANGE * (epoch - 1) / (self._total_epochs - 1)
        )


def get_task_sampler(
    config: configs.TaskSamplingConfig, task_weights: Mapping[str, float]
) -> TaskSampler:
    """Builds the sampler that a config describes.

    Raises:
        ConfigError: If no sampler is chosen.
    """
    chosen = config.get()
    if config.type == "uniform":
        return UniformTaskSampler(task_weights)
    if config.type == "proportional":
        return ProportionalTaskSampler(task_weights, alpha=chosen.alpha)
    if config.type == "annealing":
        return AnnealingTaskSampler(task_weights, chosen.steps_per_epoch, chosen.total_steps)
    raise errors.ConfigError(
        f"trainer.task_sampler.type: got {config.type!r}, expected one of "
        f"{', '.join(config.choices())}."
    )


def draw_task(sampler: TaskSampler, seed: int, global_step: tf.Tensor) -> tf.Tensor:
    """Draws the task of a step: always the same one for the same seed and step.

    Args:
        sampler: The distribution.
        seed: Seed of the run.
        global_step: `[]` integer, the steps done so far.

    Returns:
        `[]` int32, the place of the task in `sampler.task_weights`.
    """
    step = tf.cast(global_step, tf.int64)
    number = tf.random.stateless_uniform([], seed=tf.stack([tf.constant(seed, tf.int64), step]))
    distribution = sampler.task_cumulative_distribution(step)
    # The last value may miss 1 by a rounding error; no number may fall between.
    return tf.searchsorted(distribution, [number * distribution[-1]], side="right")[0]
