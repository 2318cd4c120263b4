"""The directory of one checkpoint of a trial: complete or absent, and what is in it.

<uuid>/metadata.json      which trial it is of, and after how many batches
       random_state.json  Python's and NumPy's random states
       ...                what the kind of trial writes
"""

import dataclasses
import json
import os
import pathlib
import shutil
import uuid
from typing import Any, Final

from quintain import errors
from quintain.records import trial, workload
from quintain.trials import base_trial, random_state

FORMAT: Final = 1
"""Version of the layout."""

METADATA_FILE: Final = "metadata.json"
_RANDOM_FILE: Final = "random_state.json"


@dataclasses.dataclass(frozen=True)
class Metadata:
    """What a checkpoint says about itself."""

    format: int
    """Version of the layout."""

    kind: str
    """Name of the class that wrote the state."""

    total_batches: int
    """Batches that the trial had trained on."""

    experiment_id: int
    """The experiment."""

    trial_id: int
    """The trial."""

    seed: int
    """The trial's seed."""

    hparams: dict[str, Any]
    """The trial's hyperparameters."""


def save(
    controller: base_trial.TrialController, spec: trial.TrialSpec, total_batches: int
) -> workload.StoredCheckpoint:
    """Writes a checkpoint; it appears under its name when it is complete and on the disk.

    Raises:
        CheckpointError: If it can't be written; nothing is left then.
    """
    name = str(uuid.uuid4())
    parent = pathlib.Path(spec.checkpoint_dir)
    temporary = parent / f".{spec.trial_id}-{name}.tmp"
    metadata = Metadata(
        format=FORMAT,
        kind=type(controller).__name__,
        total_batches=total_batches,
        experiment_id=spec.experiment_id,
        trial_id=spec.trial_id,
        seed=spec.seed,
        hparams=spec.hparams,
    )
    try:
        temporary.mkdir(parents=True)
        controller.save(str(temporary))
        random_state.save(temporary / _RANDOM_FILE)
        (temporary / METADATA_FILE).write_text(
            json.dumps(dataclasses.asdict(metadata), indent=2, default=str)
        )
        _sync(temporary)
        temporary.rename(parent / name)
        _sync_directory(parent)
    except OSError as error:
        shutil.rmtree(temporary, ignore_errors=True)
        raise errors.CheckpointError(
            f"{parent}: a checkpoint could not be written: {error}."
        ) from error
    except BaseException:
        shutil.rmtree(temporary, ignore_errors=True)
        raise
    return workload.StoredCheckpoint(uuid=name, files=list_files(parent / name))


def restore(controller: base_trial.TrialController, spec: trial.TrialSpec) -> int:
    """Reads the checkpoint that a trial is to go on from.

    Returns:
        Batches that the trial has been trained on: 0 after a warm start.

    Raises:
        CheckpointError: If the checkpoint is missing, damaged or another kind's.
    """
    directory = pathlib.Path(spec.latest_checkpoint or "")
    metadata = read_metadata(directory)
    kind = type(controller).__name__
    if metadata.kind != kind:
        raise errors.CheckpointError(
            f"{directory}: this checkpoint was written by {metadata.kind}, and can't be read by "
            f"{kind}."
        )
    controller.restore(str(directory), is_warm_start=spec.is_warm_start)
    if spec.is_warm_start:
        return 0
    random_state.restore(directory / _RANDOM_FILE)
    return metadata.total_batches


def read_metadata(directory: pathlib.Path) -> Metadata:
    """Returns what a checkpoint says about itself.

    Raises:
        CheckpointError: If it says nothing, or has another layout.
    """
    path = directory / METADATA_FILE
    try:
        values = json.loads(path.read_text())
        metadata = Metadata(**values)
    except (OSError, ValueError, TypeError) as error:
        raise errors.CheckpointError(
            f"{directory}: there is no complete checkpoint of a trial here: {error}."
        ) from error
    if metadata.format != FORMAT:
        raise errors.CheckpointError(
            f"{path}: the layout is of version {metadata.format}, expected {FORMAT}."
        )
    return metadata


def list_files(directory: pathlib.Path) -> dict[str, int]:
    """Returns the sizes in bytes of all files below a directory; directories end in `/`."""
    files = {}
    for path in sorted(directory.rglob("*")):
        name = path.relative_to(directory).as_posix()
        files[f"{name}/" if path.is_dir() else name] = 0 if path.is_dir() else path.stat().st_size
    return files


def _sync(directory: pathlib.Path) -> None:
    for path in directory.rglob("*"):
        if path.is_file():
            with path.open("rb") as file:
                os.fsync(file.fileno())
    _sync_directory(directory)


def _sync_directory(directory: pathlib.Path) -> None:
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
