"""SavedModel export with the arguments of the Model Garden."""

from collections.abc import Mapping, Sequence
from typing import Any

import tensorflow as tf

from quintain.core import export_base

get_timestamped_export_dir = export_base.get_timestamped_export_dir


def export(
    export_module: export_base.ExportModule,
    function_keys: Sequence[str] | Mapping[str, str],
    export_savedmodel_dir: str,
    checkpoint_path: str | None = None,
    timestamped: bool = True,
    module_key: str | None = None,
    checkpoint_kwargs: Mapping[str, Any] | None = None,
) -> str:
    """Writes a SavedModel, whose `serve` is marked as the part for TPUs.

    Args:
        export_module: The model and its functions.
        function_keys: Names of signatures by the names of functions; or a list of one function,
            which becomes `serving_default`.
        export_savedmodel_dir: Where to write.
        checkpoint_path: A checkpoint, or a directory whose newest one is taken, to restore the
            weights from. None exports the weights as they are.
        timestamped: Whether to write to a new subdirectory named by the time, in seconds.
        module_key: Name of the model in the checkpoint, where it is not `model`.
        checkpoint_kwargs: All that is restored from the checkpoint, by name. Not used with
            `module_key`.

    Returns:
        The directory of the SavedModel.

    Raises:
        ConfigError: If a function can't be a signature.
        CheckpointError: If there is no checkpoint at `checkpoint_path`, or it does not fit.
    """
    parts = {module_key: export_module.model} if module_key else checkpoint_kwargs
    return export_base.export(
        export_module,
        function_keys,
        export_savedmodel_dir,
        checkpoint_path,
        timestamped,
        tf.saved_model.SaveOptions(function_aliases={"tpu_candidate": export_module.serve}),
        checkpoint=tf.train.Checkpoint(**parts) if parts else None,
    )
