"""Serving interface of a task: signatures and uses of its trained model."""

from typing import TYPE_CHECKING

import keras
import tensorflow as tf

from quintain.core.steps import keras2_code
from quintain.settings import config_definitions as cfg

if TYPE_CHECKING:
    from quintain.core import export_base

keras2_code.complete_tf_keras()  # Tasks of users name the losses of `tf.keras`.


class ServingTask(tf.Module):
    """The part of a task that is asked when a run has ended. All of it has a default."""

    @classmethod
    def list_next_commands(cls, params: cfg.TaskConfig, model_dir: str) -> dict[str, str]:
        """Returns commands to go on with when a run has ended. The default has none.

        Those that go on with any run, such as training for longer, need not be here.

        Args:
            params: The task's config.
            model_dir: Directory of the run, quoted for a shell.

        Returns:
            Commands by a word or two on what they do.
        """
        del params, model_dir
        return {}

    @classmethod
    def bind_to_run(cls, params: cfg.TaskConfig, model_dir: str) -> cfg.TaskConfig:
        """Returns the config with which the task of a trained run is built again, to use its model.

        The default is the config of the training. Override it where files that the run keeps, such
        as a vocabulary, take the place of those that it was trained with.

        Raises:
            CheckpointError: If a file is missing without which the weights mean nothing.
        """
        del model_dir
        return params

    def build_export_module(self, model: keras.Model) -> "export_base.ExportModule":
        """Builds the functions that serve a trained model, whose signatures an export has.

        `quintain export`, `predict` and `serve-model` ask for it. The default serves a model that
        takes what the task's inputs give: the signature is that of the evaluation data, without the
        labels and whatever else the outputs do not depend on.

        Override it to serve something else, such as raw text, with an `export_base.ExportModule`.
        Keyword arguments that an overriding method takes are options of `quintain export`.

        Raises:
            ConfigError: If no signature can be found.
        """
        from quintain.core import model_export  # noqa: PLC0415 - only exports do

        return model_export.derive_from_data(self, model)
