"""Actions on the output of a train loop or of an evaluation.

An action is any callable that takes the output. `Controller` runs its `train_actions` after every
loop and its `eval_actions` after every evaluation.
"""

from quintain.orbit.actions.conditional_action import ConditionalAction
from quintain.orbit.actions.export_saved_model import ExportFileManager, ExportSavedModel
from quintain.orbit.actions.new_best_metric import JSONPersistedValue, NewBestMetric
from quintain.orbit.actions.save_checkpoint_if_preempted import SaveCheckpointIfPreempted

__all__ = [
    "ConditionalAction",
    "ExportFileManager",
    "ExportSavedModel",
    "JSONPersistedValue",
    "NewBestMetric",
    "SaveCheckpointIfPreempted",
]
