"""Callbacks of Keras trials, under the names of PEDL's versions.

The callbacks of Keras itself do as well; these act after each validation, not after each epoch.
"""

from collections.abc import Mapping
from typing import Any

import keras

from quintain.trials import trial_context


class Callback(keras.callbacks.Callback):
    """A callback that is also told of workloads and checkpoints, and whose state is saved."""

    def on_train_workload_begin(
        self, total_batches_trained: int, batches_requested: int | None, logs: Mapping[str, Any]
    ) -> None:
        """Called before some batches of training; `logs` is empty."""

    def on_train_workload_end(self, total_batches_trained: int, logs: Mapping[str, Any]) -> None:
        """Called after some batches of training, with their mean metrics."""

    def on_checkpoint_end(self, checkpoint_dir: str) -> None:
        """Called when a checkpoint is written; files may be added to it."""

    def get_state(self) -> Any:
        """Returns the state to save: numbers, texts, arrays and nests of them."""
        return None

    def load_state(self, state: Any) -> None:
        """Takes the state that `get_state` returned."""


class _AfterValidations:
    """Lets a callback of Keras act at the end of a validation instead of an epoch."""

    num_validations = 0

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        """Does nothing."""

    def on_test_end(self, logs: Any = None) -> None:
        """Acts as the callback does at the end of an epoch."""
        named = {f"val_{name}": value for name, value in (logs or {}).items()}
        super().on_epoch_end(self.num_validations, {**(logs or {}), **named})  # type: ignore[misc]
        self.num_validations += 1


class EarlyStopping(_AfterValidations, keras.callbacks.EarlyStopping):
    """Ends the trial when a metric of its validations has stopped to improve."""


class ReduceLROnPlateau(_AfterValidations, keras.callbacks.ReduceLROnPlateau):
    """Lowers the learning rate when a metric of its validations has stopped to improve."""


class TensorBoard(keras.callbacks.TensorBoard):
    """Writes event files where `quintain tensorboard` shows them."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        """Takes the arguments of Keras' callback; a `log_dir` is replaced."""
        kwargs.pop("log_dir", None)
        directory = trial_context.get_current_context().get_tensorboard_path()
        super().__init__(str(directory), *args[1:], **kwargs)


TFKerasTensorBoard = TensorBoard
