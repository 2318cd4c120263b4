"""Names of `determined.estimator`, for trials of estimators."""

import pathlib
from collections.abc import Callable
from typing import Any

import tensorflow as tf

from quintain.trials import estimator_reducers, trial_context
from quintain.trials.graphs import estimator_trial
from quintain.trials.older import pedl_context

EstimatorTrial = estimator_trial.EstimatorTrial
EstimatorTrialContext = trial_context.TrialContext
EstimatorContext = trial_context.TrialContext
EstimatorExperimentalContext = pedl_context.ExperimentalContext
MetricReducer = estimator_reducers.MetricReducer
wrap_dataset = trial_context.wrap_dataset
wrap_optimizer = trial_context.wrap_optimizer

ServingInputReceiverFn = Callable[..., Any]

_Hook: Any = tf.compat.v1.train.SessionRunHook


class RunHook(_Hook):
    """A hook of the training that sees checkpoints, too."""

    def on_checkpoint_load(self, checkpoint_dir: pathlib.Path) -> None:
        """Called when a trial goes on from a checkpoint."""

    def on_checkpoint_end(self, checkpoint_dir: pathlib.Path) -> None:
        """Called when a checkpoint is saved, and may add files to it."""

    def on_trial_close(self) -> None:
        """Called when the process of the trial ends."""
