"""TensorBoard summaries of the outputs of loops and evaluations."""

import abc
import logging
import os
from collections.abc import Callable, Mapping
from typing import Any, Final

import numpy as np
import tensorflow as tf
from tensorflow.core.framework import summary_pb2

from quintain.files import file_paths, whole_files
from quintain.orbit import values

_logger = logging.getLogger(__name__)

# What makes TensorBoard show a value in its "Scalars" tab.
_SCALAR_METADATA: Final = summary_pb2.SummaryMetadata(
    plugin_data=summary_pb2.SummaryMetadata.PluginData(plugin_name="scalars")
)


class SummaryManagerInterface(abc.ABC):
    """Sink of the outer loop's numbers. Implement it to send them somewhere else."""

    @abc.abstractmethod
    def flush(self) -> None:
        """Makes everything that was written visible to readers."""

    @abc.abstractmethod
    def summary_writer(self, relative_path: str = "") -> tf.summary.SummaryWriter:
        """Returns the writer for `tf.summary` calls made by user code."""

    @abc.abstractmethod
    def write_summaries(self, summary_dict: Mapping[str, Any]) -> None:
        """Writes values at the current global step.

        Args:
            summary_dict: Names to scalars, or to mappings of names to scalars, and so on.
        """


class SummaryManager(SummaryManagerInterface):
    """Writes event files: one per directory, created when the first value is written to it.

    A nested mapping goes to the sub-directory of its name, which TensorBoard shows as another run:
    `{"loss": 1.0, "dev": {"loss": 2.0}}` becomes a curve `loss` in the directory itself and one in
    its `dev`.
    """

    def __init__(
        self,
        summary_dir: str | os.PathLike[str] | None,
        summary_fn: Callable[..., Any] = tf.summary.scalar,
        global_step: tf.Variable | None = None,
    ) -> None:
        """Stores where to write; no file is created yet.

        Args:
            summary_dir: Directory of the event files. None disables all writing.
            summary_fn: Called with `(name, value, step=global_step)` for every value. With the
                default, values that are not single numbers are left out with a warning.
            global_step: `[]` integer variable. None takes the default step of `tf.summary`.
        """
        self._summary_dir = None if summary_dir is None else os.fspath(summary_dir)
        self._summary_fn = summary_fn
        self._global_step = (
            tf.summary.experimental.get_step() if global_step is None else global_step
        )
        self._writers: dict[str, tf.summary.SummaryWriter] = {}
        self._skipped_names: set[str] = set()

    def summary_writer(self, relative_path: str = "") -> tf.summary.SummaryWriter:
        """Returns the writer of a sub-directory, and creates it if it does not exist yet."""
        if relative_path not in self._writers:
            self._writers[relative_path] = (
                tf.summary.create_noop_writer()
                if self._summary_dir is None
                else self._create_writer(file_paths.join(self._summary_dir, relative_path))
            )
        return self._writers[relative_path]

    def _create_writer(self, directory: str) -> tf.summary.SummaryWriter:
        with whole_files.write_errors_explained(directory):
            return tf.summary.create_file_writer(directory)

    def flush(self) -> None:
        """Writes buffered values to the files.

        Raises:
            OutputError: If they can't be written.
        """
        for relative_path, writer in self._writers.items():
            with whole_files.write_errors_explained(
                file_paths.join(self._summary_dir or "", relative_path)
            ):
                writer.flush()

    def write_summaries(self, summary_dict: Mapping[str, Any]) -> None:
        """Writes values at the current global step; see the class for nested mappings."""
        if self._summary_dir is not None:
            self._write(summary_dict, "")

    def _write(self, outputs: Mapping[str, Any], relative_path: str) -> None:
        scalars = {}
        for name, value in outputs.items():
            if isinstance(value, Mapping):
                self._write(value, file_paths.join(relative_path, name))
            else:
                scalars[name] = value
        if not scalars:
            return
        if self._summary_fn is tf.summary.scalar:
            self._write_scalars(scalars, relative_path)
            return
        with self.summary_writer(relative_path).as_default():
            for name, value in scalars.items():
                self._summary_fn(name, value, step=self._global_step)

    def _write_scalars(self, scalars: Mapping[str, Any], relative_path: str) -> None:
        """Writes what `tf.summary.scalar` would, but with one op for all values."""
        summary = summary_pb2.Summary()
        for name, value in scalars.items():
            number = self._to_float(file_paths.join(relative_path, name), value)
            if number is not None:
                summary.value.add(
                    tag=name,
                    metadata=_SCALAR_METADATA,
                    tensor=tf.make_tensor_proto(number, dtype=tf.float32),
                )
        if summary.value:
            writer = self.summary_writer(relative_path)
            # What is written when the writer is left may find no room.
            with whole_files.write_errors_explained(str(self._summary_dir)), writer.as_default():
                tf.summary.experimental.write_raw_pb(
                    summary.SerializeToString(), step=self._global_step
                )

    def _to_float(self, name: str, value: Any) -> float | None:
        """Returns the number, or None (and says so once) if the value is not a single number."""
        array = np.asarray(values.get_value(value))
        # bfloat16 has the kind "V" to NumPy, but TensorFlow knows that it is a number.
        is_number = array.dtype.kind in "biuf" or array.dtype == tf.bfloat16.as_numpy_dtype
        if array.size == 1 and is_number:
            return float(array.reshape(()))
        if name not in self._skipped_names:
            self._skipped_names.add(name)
            _logger.warning(
                "Output %r is not written as a summary: got %s of shape %s, expected one number.",
                name,
                array.dtype,
                array.shape,
            )
        return None
