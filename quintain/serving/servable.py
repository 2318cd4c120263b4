"""From a directory or a file to what serves: the export module of a run, or of a Keras model."""

import dataclasses
import inspect
from collections.abc import Mapping
from typing import Any, Final

import keras

from quintain import errors
from quintain.core import base_task, export_base, model_export
from quintain.files import file_io, file_paths
from quintain.kernels import modes
from quintain.serving import trained_run

KERAS_FILE: Final = "model.keras"
"""File of a checkpoint of a `KerasTrial` that holds its model."""

_FIXED: Final = 2
"""Parameters of `build_export_module` that are no options: the task and the model."""


@dataclasses.dataclass(frozen=True)
class Servable:
    """A model with its weights, and how it serves."""

    module: export_base.ExportModule
    """Its functions."""

    checkpoint: str
    """Source of the weights."""

    task: base_task.Task | None = None
    """Its task; None of a Keras model without one."""

    kernels: modes.KernelMode = modes.KernelMode.AUTO
    """Its run's `runtime.kernels`."""


def load(
    model_dir: str, *, checkpoint: str | None = None, options: Mapping[str, Any] | None = None
) -> Servable:
    """Loads the model of a run, or a Keras model from its file.

    Args:
        model_dir: Directory of a run; or a `.keras` file, or a directory with a `model.keras`, such
            as a checkpoint of a `KerasTrial`.
        checkpoint: Checkpoint of a run. None takes the newest that is whole.
        options: Options of the task's `build_export_module`.

    Raises:
        CheckpointError: If there is no checkpoint, or it does not fit.
        ConfigError: If the run can't be built again, or its task takes no such options.
    """
    path = find_keras_file(model_dir)
    if path is not None:
        return _load_keras(path, checkpoint, options or {})
    run = trained_run.load(model_dir, checkpoint=checkpoint)
    _check_options(run.task, options or {})
    module = run.task.build_export_module(run.model, **(options or {}))
    if not isinstance(module, export_base.ExportModule):
        raise errors.ConfigError(
            f"{type(run.task).__name__}.build_export_module returned {module!r}, expected an "
            "export_base.ExportModule."
        )
    return Servable(module, run.checkpoint, run.task, run.kernels)


def _check_options(task: base_task.Task, options: Mapping[str, Any]) -> None:
    parameters = list(inspect.signature(type(task).build_export_module).parameters.values())
    if any(one.kind is inspect.Parameter.VAR_KEYWORD for one in parameters):
        return
    known = [one.name for one in parameters[_FIXED:]]
    unknown = [name for name in options if name not in known]
    if unknown:
        raise errors.ConfigError(
            f"{', '.join(unknown)}: the run is of {type(task).__name__}, whose export takes "
            f"{', '.join(known) or 'no options'}.{errors.suggest(unknown[0], known)}"
        )


def find_keras_file(path: str) -> str | None:
    """Returns the file of a Keras model that a path names, or None if it is a run's directory."""
    if path.endswith(".keras"):
        return path
    inside = file_paths.join(path, KERAS_FILE)
    is_run = file_io.exists(file_paths.join(path, "params.yaml"))
    return inside if not is_run and file_io.exists(inside) else None


def _load_keras(path: str, checkpoint: str | None, options: Mapping[str, Any]) -> Servable:
    if checkpoint is not None or options:
        given = ", ".join([*(["checkpoint"] if checkpoint else []), *options])
        raise errors.ConfigError(f"{given}: {path} is a Keras model, which takes none.")
    try:
        model = keras.saving.load_model(file_io.fetch(path), compile=False)
    except (OSError, ValueError, TypeError) as error:
        reason = str(error).strip().partition("\n")[0]
        raise errors.CheckpointError(
            f"{path}: can't be loaded as a Keras model: {reason}"
        ) from error
    features = model_export.find_own_inputs(model)
    if features is None:
        raise errors.ConfigError(
            f"{path}: the model does not say what it takes, because it is subclassed; export it "
            "by its own `model.export`."
        )
    module = model_export.ModelExport(
        None, model, features, lambda inputs, model: model(inputs, training=False)
    )
    return Servable(module, path)
