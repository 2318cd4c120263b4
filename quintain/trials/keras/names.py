"""Names that PEDL's versions gave to trials of Keras models, and to their context."""

from quintain.trials import trial_context
from quintain.trials.keras import keras_trial
from quintain.trials.older import pedl_context

KerasTrial = keras_trial.KerasTrial
KerasFunctionalTrial = keras_trial.KerasTrial
TFKerasTrial = keras_trial.KerasTrial
TFKerasContext = trial_context.TrialContext
TFKerasTrialContext = trial_context.TrialContext
TFKerasExperimentalContext = pedl_context.ExperimentalContext
wrap_dataset = trial_context.wrap_dataset
wrap_model = trial_context.wrap_model
wrap_optimizer = trial_context.wrap_optimizer
