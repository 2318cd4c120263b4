"""Early stopping of a training whose evaluations get no better."""

import math
from collections.abc import Mapping
from typing import Any, Final

from quintain.checkpoints import best_checkpoint
from quintain.settings import config_definitions as cfg

CONFIG_PATH: Final = "trainer.early_stopping"


class EarlyStopping:
    """Decides from the evaluations of a run whether more training is of use.

    The decision is a function of the evaluations on record and nothing else, so that a restarted
    run comes to the same one. An evaluation whose metric is not a number is no improvement.

    Example:
        >>> stopping = EarlyStopping(
        ...     cfg.EarlyStoppingConfig({"metric": "loss", "patience": 2, "min_delta": 0.1})
        ... )
        >>> history = {10: {"loss": 1.0}, 20: {"loss": 0.95}}
        >>> stopping.find_reason(history)
        >>> stopping.find_reason({**history, 30: {"loss": 0.97}})  # doctest: +ELLIPSIS
        'Training ends early, at step 30: loss was best at step 10 (1), and no better in the...'
    """

    def __init__(self, config: cfg.EarlyStoppingConfig) -> None:
        self._config = config

    @property
    def metric_name(self) -> str:
        """The metric that is watched."""
        return self._config.metric

    def find_reason(self, history: Mapping[int, Mapping[str, Any]]) -> str | None:
        """Returns why training should end, for people, or None if it should go on.

        Args:
            history: Metrics of the evaluations by step.

        Raises:
            ConfigError: If the metric is not among them.
        """
        config = self._config
        counted = sorted(step for step in history if step >= config.start_step)
        sign = 1 if config.mode == "lower" else -1
        best_step, best, num_without = None, sign * math.inf, 0
        for step in counted:
            value = best_checkpoint.find_metric(
                history[step], config.metric, f"{CONFIG_PATH}.metric"
            )
            num_without += 1
            if math.isfinite(value) and sign * (best - value) > config.min_delta:
                best_step, best, num_without = step, value, 0
        if num_without < config.patience:
            return None
        found = (
            f"{config.metric} was never a number"
            if best_step is None
            else f"{config.metric} was best at step {best_step} ({best:g})"
        )
        return (
            f"Training ends early, at step {counted[-1]}: {found}, and no better in the last "
            f"{num_without} evaluations ({CONFIG_PATH}.patience)."
        )
