"""Privacy accounting of a trainer: the epsilon spent, and a check of every step."""

import contextlib
import logging
from collections.abc import Iterator
from typing import Any

import tensorflow as tf

from quintain.core.privacy import privacy_accounting
from quintain.input import poisson_sampling
from quintain.optimization import privacy
from quintain.settings import config_definitions as cfg

logger = logging.getLogger(__name__)


class PrivacyLedger:
    """Epsilon as a function of the step, and the examples that found no room in a batch.

    Nothing needs saving: a resumed run computes the same epsilon from its step.
    """

    def __init__(
        self, params: cfg.ExperimentConfig, task: privacy_accounting.CountsExamples
    ) -> None:
        """Builds the accountant.

        Raises:
            ConfigError: If epsilon can't be computed with what the config gives.
        """
        self._dp_config = cfg.find_privacy(params)
        self._accountant = privacy_accounting.build(params, task)
        self._task_name = type(task).__name__
        self._num_dropped = tf.Variable(
            0,
            dtype=tf.int64,
            trainable=False,
            name="num_dropped",
            synchronization=tf.VariableSynchronization.ON_READ,
            aggregation=tf.VariableAggregation.SUM,
        )

    def with_sampling(self, params: cfg.DataConfig) -> cfg.DataConfig:
        """Returns training data of which an `InputReader` draws examples by chance, if wanted."""
        dp_config = self._dp_config
        if dp_config is None or not dp_config.poisson_sampling:
            return params
        if not params.is_training or dp_config.num_examples is None:
            return params
        return params.replace(poisson_num_examples=dp_config.num_examples)

    def log_start(self, dataset: Any) -> None:
        """Logs what a training run will spend."""
        if self._accountant is not None:
            privacy_accounting.log_start(
                self._accountant, is_poisson_sampled=poisson_sampling.is_sampled(dataset)
            )
        else:
            logger.warning(
                "Differential privacy: no epsilon can be given without noise_multiplier and "
                "num_examples in task.differential_privacy_config."
            )

    @contextlib.contextmanager
    def private_sum_required(self) -> Iterator[None]:
        """Checks that the step inside limits what single examples do.

        Raises:
            ConfigError: If it applies gradients that are not sums of clipped ones.
        """
        with privacy.private_sum_required(f"{self._task_name}.train_step"):
            yield

    def take_real(self, inputs: Any) -> Any:
        """Returns one replica's batch without padding, and counts examples left out of it."""
        if isinstance(inputs, poisson_sampling.PoissonBatch):
            self._num_dropped.assign_add(inputs.num_dropped)
        return poisson_sampling.get_real(inputs)

    def read_logs(self, step: int) -> dict[str, float]:
        """Returns `epsilon` at a step, and `examples_dropped` since the last call, if any."""
        logs: dict[str, float] = {}
        if self._accountant is not None:
            logs["epsilon"] = self._accountant.epsilon(step)
        if num_dropped := int(self._num_dropped.numpy()):
            self._num_dropped.assign(0)
            logs["examples_dropped"] = num_dropped
            logger.warning("%d examples were drawn but found no room in a batch.", num_dropped)
        return logs
