"""Names of `pedl.frameworks.tensorflow`, for trials of TensorFlow graphs."""

from quintain.trials import estimator, trial_context
from quintain.trials.graphs import tensorflow_trial

TensorFlowTrial = tensorflow_trial.TensorFlowTrial
EstimatorTrial = estimator.EstimatorTrial
ServingInputReceiverFn = estimator.ServingInputReceiverFn
wrap_dataset = trial_context.wrap_dataset
wrap_optimizer = trial_context.wrap_optimizer
