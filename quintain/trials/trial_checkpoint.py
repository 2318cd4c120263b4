"""The directory of one checkpoint of a trial: complete or absent, and what is in it.

<uuid>/metadata.json      which trial it is of, after how many batches, and what files there are
       random_state.json  Python's and NumPy's random states
       ranks/N/...        what process N has of its own, where several train the trial
       ...                what the kind of trial writes
"""

import dataclasses
import json
import os
import pathlib
import shutil
import uuid

from quintain import durable_files, errors
from quintain.records import checkpoint_manifest, trial, workload
from quintain.trials import base_trial, random_state, rank_parts


def save(
    controller: base_trial.TrialController, spec: trial.TrialSpec, total_batches: int
) -> workload.StoredCheckpoint:
    """Writes a checkpoint; it appears under its name when it is complete and on the disk.

    Raises:
        CheckpointError: If it can't be written; nothing is left then.
    """
    name = str(uuid.uuid4())
    parent = pathlib.Path(spec.checkpoint_dir)
    temporary = parent / checkpoint_manifest.unfinished_name(spec.launch_id or name)
    try:
        temporary.mkdir(parents=True)
        rank_parts.save(controller, temporary)
        manifest = checkpoint_manifest.Manifest(
            format=checkpoint_manifest.FORMAT,
            kind=type(controller).__name__,
            total_batches=total_batches,
            experiment_id=spec.experiment_id,
            trial_id=spec.trial_id,
            seed=spec.seed,
            hparams=spec.hparams,
            home_id=spec.home_id,
            launch_id=spec.launch_id,
            hashes=checkpoint_manifest.hash_files(temporary),
            sizes=checkpoint_manifest.list_files(temporary),
        )
        text = json.dumps(dataclasses.asdict(manifest), indent=2, default=str)
        (temporary / checkpoint_manifest.FILE_NAME).write_text(text, encoding="utf-8")
        _sync(temporary)
        temporary.rename(parent / name)
        durable_files.sync_directory(parent)
    except OSError as error:
        shutil.rmtree(temporary, ignore_errors=True)
        raise errors.CheckpointError(
            f"{parent}: a checkpoint could not be written: {error}."
        ) from error
    except BaseException:
        shutil.rmtree(temporary, ignore_errors=True)
        raise
    files = checkpoint_manifest.list_files(parent / name)
    return workload.StoredCheckpoint(uuid=name, files=files)


def restore(controller: base_trial.TrialController, spec: trial.TrialSpec) -> int:
    """Reads the checkpoint that a trial is to go on from.

    Returns:
        Batches that the trial has been trained on: 0 after a warm start.

    Raises:
        CheckpointError: If the checkpoint is missing, damaged or another kind's.
    """
    directory = pathlib.Path(spec.latest_checkpoint or "")
    manifest = checkpoint_manifest.read(directory)
    kind = type(controller).__name__
    if manifest.kind != kind:
        raise errors.CheckpointError(
            f"{directory}: this checkpoint was written by {manifest.kind}, and can't be read by "
            f"{kind}."
        )
    controller.restore(str(directory), is_warm_start=spec.is_warm_start)
    if spec.is_warm_start:
        return 0
    own = rank_parts.find(directory, controller.context.distributed)
    random_state.restore(own / rank_parts.RANDOM_FILE)
    return manifest.total_batches


def _sync(directory: pathlib.Path) -> None:
    for path in directory.rglob("*"):
        if path.is_dir():
            durable_files.sync_directory(path)
        else:
            with path.open("rb") as file:
                os.fsync(file.fileno())
    durable_files.sync_directory(directory)
