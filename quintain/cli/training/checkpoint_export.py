"""Exports the models in a checkpoint of a trial, whatever kind of trial has saved it."""

import pathlib
import shlex
import shutil
from collections.abc import Mapping
from typing import Final

import click

from quintain import errors
from quintain.cli import tensorflow_import
from quintain.records import checkpoint_manifest

_SAVED_MODEL: Final = "saved_model.pb"
_KERAS_SUFFIX: Final = ".keras"
_OF_TASK: Final = "TaskTrialController"
"""What a checkpoint says of a trial of a registered experiment."""


def export_models(
    source: pathlib.Path,
    uuid: str,
    target: pathlib.Path,
    sizes: Mapping[str, int] | None = None,
    code: pathlib.Path | None = None,
) -> None:
    """Exports all models of a checkpoint, and prints where each of them is.

    Args:
        source: The checkpoint's files.
        uuid: The checkpoint, for messages.
        target: Directory to write, empty or not there.
        sizes: Sizes of the files that there must be; None for those that the checkpoint names.
        code: Directory with the code of its experiment, if that has some.

    Raises:
        CheckpointError: If it is damaged, or there is no model in it.
        ConfigError: If the model of its task can't be exported.
    """
    damage = checkpoint_manifest.find_damage(source, sizes or {})
    if damage:
        raise errors.CheckpointError(
            f"checkpoint {uuid}: it is damaged: {damage}. Nothing was exported; `quintain "
            "checkpoint list` shows others."
        )
    models = find_models(source)
    for model in models:
        _copy(model, target / (_name(model, source)))
    if models:
        return
    if is_of_task(source):
        _export_task(source, uuid, target / "saved_model", code)
        return
    names = checkpoint_manifest.list_files(source)
    files = ", ".join(sorted(name for name in names if not name.endswith("/")))
    raise errors.CheckpointError(
        f"checkpoint {uuid}: there is no SavedModel and no .keras file in it, only {files}. "
        "`quintain checkpoint download` copies them all."
    )


def find_models(directory: pathlib.Path) -> list[pathlib.Path]:
    """Returns directories of SavedModels and `.keras` files, without those inside of others."""
    saved_models = sorted(path.parent for path in directory.rglob(_SAVED_MODEL))
    keras_models = sorted(directory.rglob(f"*{_KERAS_SUFFIX}"))
    return saved_models + [
        path for path in keras_models if not any(path.is_relative_to(one) for one in saved_models)
    ]


def _name(model: pathlib.Path, source: pathlib.Path) -> pathlib.Path:
    name = model.relative_to(source)
    return name if name.parts else pathlib.Path("saved_model")


def _copy(model: pathlib.Path, target: pathlib.Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    if model.is_dir():
        shutil.copytree(model, target)
    else:
        shutil.copyfile(model, target)
    _tell(target)


def is_of_task(source: pathlib.Path) -> bool:
    """Returns whether a checkpoint is that of a registered experiment, and so a run's directory."""
    has_manifest = (source / checkpoint_manifest.FILE_NAME).is_file()
    return has_manifest and checkpoint_manifest.read(source).kind == _OF_TASK


def _export_task(
    source: pathlib.Path, uuid: str, target: pathlib.Path, code: pathlib.Path | None
) -> None:
    tensorflow_import.import_quietly()
    from quintain.serving import exporter
    from quintain.trials import task_trial

    if code is not None:
        task_trial.import_experiments(code)
    try:
        exporter.export_run(str(source), str(target))
    except errors.ConfigError as error:
        # The directory is one of this command alone, which nobody can look at.
        text = str(error).replace(f"model_dir: got {str(source)!r}, which", "its files are what")
        raise errors.ConfigError(f"checkpoint {uuid}: {text}") from error
    _tell(target)


def _tell(target: pathlib.Path) -> None:
    click.echo(str(target))
    command = f"quintain serve-model --model-dir={shlex.quote(str(target))}"
    click.echo(f"\nTo serve it: {command}", err=True)
