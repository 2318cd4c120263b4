"""Asynchronous writer of the checkpoints of a `tf.train.Checkpoint`.

TensorFlow's own way (2.21) copies every object to the CPU first, which the layers and optimizers
of Keras 3 do not take part in: it fails, or leaves their variables out. Here the values are read at
once and written by a thread; a variable is copied only when it is next assigned to.
"""

import copy
import inspect
import os
import threading
from typing import Any

import tensorflow as tf
from tensorflow.python.checkpoint import functional_saver
from tensorflow.python.training.saving import saveable_object

from quintain.files import file_io, file_paths


class BackgroundCheckpointer:
    """Writer behind `CheckpointOptions(enable_async=True)`.

    It has the methods of TensorFlow's own helper, and takes its place in one checkpoint object. So
    a `tf.train.CheckpointManager` over it needs to know nothing.
    """

    def __init__(self, checkpoint: tf.train.Checkpoint) -> None:
        """Stores whose values are written.

        Args:
            checkpoint: The objects.
        """
        self._checkpoint = checkpoint
        self._writer: threading.Thread | None = None
        self._error: BaseException | None = None

    @classmethod
    def install(cls, checkpoint: tf.train.Checkpoint) -> None:
        """Lets a checkpoint object be written by a background checkpointer from now on."""
        if not isinstance(checkpoint._async_checkpointer_impl, cls):
            checkpoint.sync()
            checkpoint._async_checkpointer_impl = cls(checkpoint)

    def write(self, save_path: str, options: Any = None) -> str:
        """Reads all values now, and writes them to the files of a prefix in the background.

        Args:
            save_path: The prefix.
            options: How to write. Its callbacks run when the files are complete.

        Returns:
            The prefix.

        Raises:
            Exception: What went wrong in the background before, in writing or in a callback.
        """
        self.sync()
        snapshot = capture(self._checkpoint)
        save_path = os.fspath(save_path)
        file_io.makedirs(file_paths.dirname(save_path))
        self._writer = threading.Thread(
            target=self._run, args=(snapshot, save_path, _without_async(options)), daemon=False
        )
        self._writer.start()
        return save_path

    _write = write  # The name by which a manager calls it.

    def save(self, save_path: str, options: Any = None) -> str:
        """Does what `Checkpoint.save` does, at once."""
        self.sync()
        path: str = self._checkpoint.save(save_path, _without_async(options))
        return path

    def read(self, save_path: str, options: Any = None) -> Any:
        """Does what `Checkpoint.read` does, when everything is written."""
        self.sync()
        self._checkpoint._checkpoint_options = None  # Else it would ask here again.
        return self._checkpoint.read(save_path, _without_async(options))

    def restore(self, save_path: str, options: Any = None) -> Any:
        """Does what `Checkpoint.restore` does, when everything is written."""
        self.sync()
        self._checkpoint._checkpoint_options = None
        return self._checkpoint.restore(save_path, _without_async(options))

    def sync(self) -> None:
        """Waits until everything is written.

        Raises:
            Exception: What went wrong.
        """
        if self._writer is not None:
            self._writer.join()
            self._writer = None
        if self._error is not None:
            error, self._error = self._error, None
            raise error

    def _run(self, snapshot: functional_saver.MultiDeviceSaver, path: str, options: Any) -> None:
        try:
            snapshot.save(tf.constant(path), options=options)
            for callback in options.experimental_write_callbacks or ():
                has_path = bool(inspect.signature(callback).parameters)
                callback(path) if has_path else callback()
        except BaseException as error:  # noqa: BLE001 - for the thread that waits
            self._error = error


def capture(checkpoint: tf.train.Checkpoint) -> functional_saver.MultiDeviceSaver:
    """Reads all values now and returns a saver that writes them later.

    This is what `tf.train.Checkpoint.write` does, split in two, which its public interface can't do
    (TensorFlow 2.21).
    """
    tensors, _, registered, _ = checkpoint._saver._gather_serialized_tensors()
    for values in tensors.values():
        values.update({key: read_value(value) for key, value in values.items()})
    return functional_saver.MultiDeviceSaver(tensors, registered)


def read_value(value: Any) -> Any:
    """Returns the tensor, or nested tensors, that TensorFlow would write for a variable."""
    if isinstance(value, dict):
        return {key: read_value(part) for key, part in value.items()}
    if isinstance(value, saveable_object.SaveSpec):
        value = value.tensor
    value = value() if callable(value) else value
    # Under a distribution strategy it is a variable still, which would be read when it is written.
    return value.read_value() if isinstance(value, tf.Variable) else value


def _without_async(options: Any) -> Any:
    options = copy.copy(options) or tf.train.CheckpointOptions()
    options.enable_async = options.experimental_enable_async_checkpoint = False
    return options
