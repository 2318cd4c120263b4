"""Exports a trained model as a SavedModel that serves.

Example:
    >>> import keras, tempfile
    >>> class Doubled(ExportModule):
    ...     @tf.function
    ...     def serve(self, inputs):
    ...         return {"outputs": 2.0 * self.inference_step(inputs)}
    ...
    ...     def get_inference_signatures(self, function_keys):
    ...         spec = tf.TensorSpec([None, 3], tf.float32)
    ...         return {key: self.serve.get_concrete_function(spec)
    ...                 for key in function_keys.values()}
    >>> model = keras.Sequential([keras.Input([3]), keras.layers.Dense(1)])
    >>> directory = export(Doubled(None, model), ["serve"], tempfile.mkdtemp())
    >>> tf.saved_model.load(directory).signatures["serving_default"](tf.zeros([2, 3]))
    {'outputs': <tf.Tensor: shape=(2, 1), dtype=float32, numpy=...>}
"""

import abc
import functools
import logging
import os
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, Final

import keras
import tensorflow as tf

from quintain import errors
from quintain.checkpoints import checkpoint_fit, saved_graph
from quintain.files import file_io, file_paths, literal_paths

MAX_DIRECTORY_CREATION_ATTEMPTS: Final = 10
"""Attempts of `get_timestamped_export_dir` to find a free name."""

_SECS_BETWEEN_ATTEMPTS: Final = 1.0

logger = logging.getLogger(__name__)


class ExportModule(tf.Module, metaclass=abc.ABCMeta):
    """A model with the functions that serve it.

    `serve` and `get_inference_signatures` must be overridden; they decide what `preprocessor` and
    `postprocessor` are used for.
    """

    kind: ClassVar[str] = "model"
    """What the model does, which decides how commands use it: those that they do not know are asked
    through their default signature."""

    function_keys: ClassVar[Mapping[str, str]] = {
        "serve": tf.saved_model.DEFAULT_SERVING_SIGNATURE_DEF_KEY
    }
    """Names of the signatures of an export by the functions of this module."""

    def __init__(
        self,
        params: Any,
        model: tf.Module | keras.Model,
        inference_step: Callable[..., Any] | None = None,
        *,
        preprocessor: Callable[..., Any] | None = None,
        postprocessor: Callable[..., Any] | None = None,
    ) -> None:
        """Stores the parts.

        Args:
            params: Whatever the module needs to know; a config.
            model: The model, or anything with weights that can be called.
            inference_step: Runs the model; called with the inputs and the keyword argument `model`.
                The default is `model.call` of a Keras model, which has no training behaviour unless
                its own default is `training=True`, and `model(inputs, training=False)` of
                everything else.
            preprocessor: Function or `tf.Module` for the inputs.
            postprocessor: Function or `tf.Module` for the outputs.
        """
        super().__init__(name=None)
        self.model = model
        self.params = params
        self.inference_step: Callable[..., Any]
        if inference_step is not None:
            self.inference_step = functools.partial(inference_step, model=self.model)
        elif isinstance(model, keras.Model):
            self.inference_step = self.model.call
        else:
            self.inference_step = functools.partial(self.model.__call__, training=False)
        self.preprocessor = preprocessor
        self.postprocessor = postprocessor

    @abc.abstractmethod
    def serve(self) -> Mapping[str, tf.Tensor]:
        """Computes the outputs; its parameters are the inputs, given by name.

        Returns:
            Tensors by the names that they have in the signature.
        """

    @abc.abstractmethod
    def get_inference_signatures(self, function_keys: dict[str, str]) -> Mapping[str, Any]:
        """Returns the functions to export.

        Args:
            function_keys: The names of signatures by the names of this module's functions.

        Returns:
            By the names of their signatures, concrete functions, or functions with an
            `input_signature`.
        """

    def find_function(self, name: str) -> Any:
        """Returns a `tf.function` of this module.

        Raises:
            ConfigError: If there is none of this name.
        """
        function = getattr(self, name, None)
        if not hasattr(function, "get_concrete_function"):
            raise errors.ConfigError(
                f"function_keys: {type(self).__name__} has no function {name!r}."
            )
        return function

    def describe(self) -> dict[str, Any]:
        """Returns plain data that an export keeps beside the model; none by default."""
        return {}


def export(
    export_module: ExportModule,
    function_keys: Sequence[str] | Mapping[str, str],
    export_savedmodel_dir: str,
    checkpoint_path: str | None = None,
    timestamped: bool = True,
    save_options: tf.saved_model.SaveOptions | None = None,
    checkpoint: tf.train.Checkpoint | None = None,
) -> str:
    """Writes a SavedModel.

    Args:
        export_module: The model and its functions.
        function_keys: Names of signatures by the names of functions; or a list of one function,
            which becomes `serving_default`.
        export_savedmodel_dir: Where to write.
        checkpoint_path: A checkpoint, or a directory whose newest one is taken, to restore the
            weights from. None exports the weights as they are.
        timestamped: Whether to write to a new subdirectory named by the time, in seconds.
        save_options: Options of `tf.saved_model.save`.
        checkpoint: Restores the weights instead of one of `export_module.model`; what it holds must
            be in the file.

    Returns:
        The directory of the SavedModel.

    Raises:
        ValueError: If the list has none or several functions.
        ConfigError: If TensorFlow can't write to the directory.
        CheckpointError: If there is no checkpoint at `checkpoint_path`, or it does not fit.
    """
    if not isinstance(function_keys, Mapping):
        if len(function_keys) != 1:
            raise ValueError(
                f"function_keys: got {function_keys!r}, expected a list of a single function, or a "
                "mapping from functions to signatures."
            )
        function_keys = {function_keys[0]: tf.saved_model.DEFAULT_SERVING_SIGNATURE_DEF_KEY}
    file_io.check_writable(export_savedmodel_dir, "export_savedmodel_dir")
    if checkpoint_path:
        _restore(export_module.model, checkpoint_path, checkpoint)
    signatures = export_module.get_inference_signatures(dict(function_keys))
    export_dir = export_savedmodel_dir
    if timestamped:
        export_dir = get_timestamped_export_dir(export_savedmodel_dir)
    tf.saved_model.save(export_module, export_dir, signatures=signatures, options=save_options)
    return export_dir


def get_timestamped_export_dir(export_dir_base: str) -> str:
    """Returns the path of a subdirectory that does not exist yet, named by the time in seconds.

    Raises:
        RuntimeError: If all names that were tried, one each second, are taken.
    """
    for attempt in range(1, MAX_DIRECTORY_CREATION_ATTEMPTS + 1):
        path = file_paths.join(os.fspath(export_dir_base), str(int(time.time())))
        if not file_io.exists(path):
            return path
        logger.warning(
            "The directory %s exists; trying again (%d of %d).",
            path,
            attempt,
            MAX_DIRECTORY_CREATION_ATTEMPTS,
        )
        time.sleep(_SECS_BETWEEN_ATTEMPTS)
    raise RuntimeError(
        f"Found no unused name in {export_dir_base!r} in {MAX_DIRECTORY_CREATION_ATTEMPTS} "
        "attempts."
    )


def _restore(model: Any, path: str, checkpoint: tf.train.Checkpoint | None) -> None:
    path = checkpoint_fit.find_newest(path, "checkpoint_path")
    if checkpoint is None and isinstance(model, keras.Model):
        checkpoint_fit.restore_model(model, path)
        return
    checkpoint = checkpoint or tf.train.Checkpoint(model=model)
    try:
        checkpoint.read(
            literal_paths.checkpoint(path)
        ).assert_existing_objects_matched().expect_partial()
    except (tf.errors.OpError, ValueError, AssertionError) as error:
        raise errors.CheckpointError(
            f"checkpoint_path: {path!r} does not fit: {saved_graph.describe_error(error)}"
        ) from error
