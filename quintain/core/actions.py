"""What a config asks to happen after every training loop and every evaluation."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from quintain import errors
from quintain.core import base_trainer, evaluation_log
from quintain.core import config_definitions as cfg

Action = Callable[[Mapping[str, Any]], None]


class StopOnNonFiniteLoss:
    """Ends training when the mean loss of a loop is not finite.

    It runs before the loop's checkpoint is saved, so that the newest checkpoint is a good one.
    """

    def __init__(self, trainer: base_trainer.Trainer) -> None:
        """Stores whose step is named in the error."""
        self._trainer = trainer

    def __call__(self, output: Mapping[str, Any]) -> None:
        """Checks the training loss.

        Raises:
            TrainingDivergedError: If it is NaN or infinite.
        """
        loss = output.get(self._trainer.train_loss.name)
        if loss is None or np.isfinite(loss):
            return
        step = int(self._trainer.global_step.numpy())
        raise errors.TrainingDivergedError(
            f"The training loss became {float(loss)} by step {step}. The newest checkpoint is from "
            "before. Lower the learning rate, clip gradients (global_clipnorm of the optimizer) or "
            "look at the data; trainer.recovery_max_trials=-1 switches this check off."
        )


class RecordEvaluation:
    """Writes every evaluation to the run's `EvaluationLog`."""

    def __init__(self, trainer: base_trainer.Trainer, log: evaluation_log.EvaluationLog) -> None:
        """Stores whose evaluations are recorded, and where."""
        self._trainer = trainer
        self._log = log

    def __call__(self, output: Mapping[str, Any]) -> None:
        """Records `output` under the current step."""
        self._log.record(int(self._trainer.global_step.numpy()), output)


def get_train_actions(params: cfg.ExperimentConfig, trainer: base_trainer.Trainer) -> list[Action]:
    """Returns the actions that `params` asks for after every training loop."""
    return [StopOnNonFiniteLoss(trainer)] if params.trainer.recovery_max_trials >= 0 else []


def get_eval_actions(
    trainer: base_trainer.Trainer, log: evaluation_log.EvaluationLog | None
) -> list[Action]:
    """Returns the actions after every evaluation."""
    return [] if log is None else [RecordEvaluation(trainer, log)]
