"""Epsilon: how much a differentially private run reveals of any one example.

A run is a composition of `steps` Gaussian mechanisms, each on a random part of the training data.
Its epsilon, for a given delta, is computed from the privacy loss distribution (PLD), or by Renyi
differential privacy (RDP) for runs so long that the PLD would be slow. Two data sets are neighbours
if one has one example more than the other.

Sources:
    Koskela et al., 2020 (https://arxiv.org/abs/1906.03049); Doroshenko et al., 2022
    (https://arxiv.org/abs/2207.04380); Mironov et al., 2019 (https://arxiv.org/abs/1908.10530).
"""

import contextlib
import functools
import importlib
import logging
import math
from collections.abc import Iterator
from typing import Any, Final, Protocol

from quintain import errors
from quintain.settings import config_definitions as cfg

MAX_PLD_STEPS: Final = 200_000
"""Steps of the longest run whose epsilon is computed from the privacy loss distribution."""

_FIELD: Final = "task.differential_privacy_config"
_NOISE_RANGE: Final = (0.05, 10_000.0)
_NOISE_PRECISION: Final = 1e-3
_PLD_INTERVALS: Final = 3000
_FINEST_INTERVAL: Final = 1e-4

logger = logging.getLogger(__name__)


class CountsExamples(Protocol):
    """Interface of a task that counts the examples of a batch."""

    def count_batch_examples(self, params: cfg.DataConfig) -> int:
        """Returns the examples of a batch that `params` describe."""


class PrivacyAccountant:
    """Computes epsilon as a function of the step.

    Example:
        >>> accountant = PrivacyAccountant(
        ...     sampling_rate=256 / 60000, noise_multiplier=1.1, delta=1e-5, train_steps=14062
        ... )
        >>> round(accountant.epsilon(14062), 1)
        2.4
    """

    def __init__(
        self, *, sampling_rate: float, noise_multiplier: float, delta: float, train_steps: int
    ) -> None:
        """Chooses the method, and prepares what all steps share.

        Args:
            sampling_rate: Probability with which an example is part of a batch, in `(0, 1]`.
            noise_multiplier: Standard deviation of the noise over the clipping norm, above 0.
            delta: Probability with which the guarantee may fail, in `(0, 1)`.
            train_steps: Steps of the whole run.

        Raises:
            ConfigError: If the package dp-accounting is not installed.
        """
        self.sampling_rate = sampling_rate
        self.noise_multiplier = noise_multiplier
        self.delta = delta
        self.train_steps = train_steps
        self._accounting = _import_accounting()
        self._loss_distribution = None
        if train_steps <= MAX_PLD_STEPS:
            self._loss_distribution = self._build_loss_distribution()
        self._cached: tuple[int, float] = (0, 0.0)

    @property
    def method(self) -> str:
        """`PLD` or `RDP`."""
        return "RDP" if self._loss_distribution is None else "PLD"

    def epsilon(self, steps: int) -> float:
        """Returns the epsilon spent after a number of steps; infinite if there is no bound."""
        if steps <= 0:
            return 0.0
        if self._cached[0] != steps:
            if self._loss_distribution is None or steps > MAX_PLD_STEPS:
                value = self._compute_by_rdp(steps)
            else:
                composed = self._loss_distribution.self_compose(steps)
                value = float(composed.get_epsilon_for_delta(self.delta))
            self._cached = (steps, value)
        return self._cached[1]

    def _compute_by_rdp(self, steps: int) -> float:
        event = self._accounting.PoissonSampledDpEvent(
            self.sampling_rate, self._accounting.GaussianDpEvent(self.noise_multiplier)
        )
        with _quiet_absl():
            accountant = self._accounting.rdp.RdpAccountant()
            return float(accountant.compose(event, steps).get_epsilon(self.delta))

    def _build_loss_distribution(self) -> Any:
        """Returns the distribution of one step, on a grid that fits the epsilon to be expected."""
        expected = self._compute_by_rdp(self.train_steps)
        if not math.isfinite(expected):
            return None
        interval = max(expected / _PLD_INTERVALS, _FINEST_INTERVAL)
        # Rounded up to a grid whose steps are the same whatever the last digits.
        interval = 10 ** (math.ceil(math.log10(interval) * 8) / 8)
        return self._accounting.pld.privacy_loss_distribution.from_gaussian_mechanism(
            self.noise_multiplier,
            sampling_prob=self.sampling_rate,
            value_discretization_interval=interval,
        )


def check(params: cfg.ExperimentConfig) -> Iterator[str]:
    """Yields what is missing to train privately, before a model is built."""
    dp_config = cfg.find_privacy(params)
    if dp_config is None or not _has_guarantee(dp_config):
        return
    if dp_config.num_examples is None:
        yield (
            f"{_FIELD}.num_examples: got None, expected the number of examples in the training "
            "data; epsilon depends on it."
        )
    try:
        _import_accounting()
    except errors.ConfigError as error:
        yield str(error)


def build(params: cfg.ExperimentConfig, task: CountsExamples) -> PrivacyAccountant | None:
    """Builds the accountant of a run; None if it gives no guarantee, or `num_examples` is unknown.

    Raises:
        ConfigError: If a batch has no or more examples than the data, or `target_epsilon` can't be
            reached.
    """
    dp_config = cfg.find_privacy(params)
    if dp_config is None or not _has_guarantee(dp_config) or dp_config.num_examples is None:
        return None
    rate = _get_sampling_rate(params, task, dp_config.num_examples)
    delta = dp_config.num_examples**-1.1 if dp_config.delta is None else dp_config.delta
    steps = params.trainer.train_steps
    if dp_config.target_epsilon is None:
        noise_multiplier = dp_config.noise_multiplier
    else:
        noise_multiplier = find_noise_multiplier(
            target_epsilon=dp_config.target_epsilon,
            sampling_rate=rate,
            delta=delta,
            train_steps=steps,
        )
    return PrivacyAccountant(
        sampling_rate=rate, noise_multiplier=noise_multiplier, delta=delta, train_steps=steps
    )


def resolve(
    params: cfg.ExperimentConfig, task: CountsExamples
) -> cfg.DifferentialPrivacyConfig | None:
    """Returns the task's `differential_privacy_config`, with the noise that reaches its target.

    Raises:
        ConfigError: If `target_epsilon` can't be reached, or depends on what is not given.
    """
    dp_config = cfg.find_privacy(params)
    if dp_config is None or dp_config.target_epsilon is None:
        return dp_config
    accountant = build(params, task)
    if accountant is None:
        raise errors.ConfigError("\n".join(check(params)))
    return dp_config.replace(noise_multiplier=accountant.noise_multiplier, target_epsilon=None)


@functools.lru_cache(maxsize=32)
def find_noise_multiplier(
    *, target_epsilon: float, sampling_rate: float, delta: float, train_steps: int
) -> float:
    """Returns the smallest noise multiplier, to one part in a thousand, for an epsilon.

    Args:
        target_epsilon: Largest epsilon after `train_steps`.
        sampling_rate: Probability with which an example is part of a batch.
        delta: Probability with which the guarantee may fail.
        train_steps: Steps of the whole run.

    Raises:
        ConfigError: If no noise multiplier up to 10,000 is enough.
    """

    def is_enough(noise_multiplier: float) -> bool:
        accountant = PrivacyAccountant(
            sampling_rate=sampling_rate,
            noise_multiplier=noise_multiplier,
            delta=delta,
            train_steps=train_steps,
        )
        return accountant.epsilon(train_steps) <= target_epsilon

    lowest, highest = _NOISE_RANGE
    enough = 1.0
    while not is_enough(enough):
        enough *= 2
        if enough > highest:
            raise errors.ConfigError(
                f"{_FIELD}.target_epsilon: got {target_epsilon!r}, which no noise multiplier up to "
                f"{highest:g} reaches in {train_steps} steps at sampling rate {sampling_rate:g} "
                f"and delta {delta:g}. Raise epsilon, or train fewer steps."
            )
    too_little = enough / 2
    while too_little > lowest and is_enough(too_little):
        enough, too_little = too_little, too_little / 2
    while enough - too_little > _NOISE_PRECISION * enough:
        middle = (enough + too_little) / 2
        if is_enough(middle):
            enough = middle
        else:
            too_little = middle
    return enough


def log_start(accountant: PrivacyAccountant, *, is_poisson_sampled: bool) -> None:
    """Logs what the run will spend, and what its computation takes for granted."""
    logger.info(
        "Differential privacy: noise multiplier %.4g, sampling rate %.4g, delta %.3g; epsilon "
        "after %d steps will be %.4g (%s accountant, neighbours differ by one example more).",
        accountant.noise_multiplier,
        accountant.sampling_rate,
        accountant.delta,
        accountant.train_steps,
        accountant.epsilon(accountant.train_steps),
        accountant.method,
    )
    if not is_poisson_sampled:
        logger.warning(
            "The batches are shuffled, not drawn by chance (Poisson sampling). Epsilon is computed "
            "as if they were, which is common practice but no proof."
        )


def _has_guarantee(dp_config: cfg.DifferentialPrivacyConfig) -> bool:
    return bool(dp_config.noise_multiplier) or dp_config.target_epsilon is not None


def _get_sampling_rate(
    params: cfg.ExperimentConfig, task: CountsExamples, num_examples: int
) -> float:
    batch_size = task.count_batch_examples(params.task.train_data)
    if not 0 < batch_size <= num_examples:
        raise errors.ConfigError(
            f"{_FIELD}.num_examples: got {num_examples}, expected at least the {batch_size} "
            "examples of a batch, of which there must be some (task.train_data.global_batch_size)."
        )
    return batch_size / num_examples


def _import_accounting() -> Any:
    try:
        accounting = importlib.import_module("dp_accounting")
        importlib.import_module("dp_accounting.rdp")
        importlib.import_module("dp_accounting.pld.privacy_loss_distribution")
    except ImportError as error:
        raise errors.ConfigError(
            f"{_FIELD}: computing epsilon needs the package dp-accounting. Install it: "
            'pip install "quintain[privacy]".'
        ) from error
    return accounting


@contextlib.contextmanager
def _quiet_absl() -> Iterator[None]:
    """Silences the note of every order of RDP that does not converge; the others suffice."""
    absl = logging.getLogger("absl")
    former = absl.level
    absl.setLevel(logging.ERROR)
    try:
        yield
    finally:
        absl.setLevel(former)
