"""Directory of one checkpoint of a trial, complete or absent.

<uuid>/metadata.json      which trial it is of, after how many batches, and what files there are
       random_state.json  Python's and NumPy's random states
       ranks/N/...        what process N has of its own, where several train the trial
       ...                what the kind of trial writes
"""

import contextlib
import dataclasses
import json
import pathlib
import random
import uuid
from collections.abc import Callable, Iterator
from typing import TypeVar

from quintain import errors
from quintain.records import checkpoint_manifest
from quintain.records.rows import trial, workload
from quintain.storage import checkpoint_storage, directory_storage, retries
from quintain.trials import base_trial, random_state
from quintain.trials.process import rank_files

T = TypeVar("T")


@dataclasses.dataclass(frozen=True)
class Staged:
    """The files of a checkpoint on this machine, which become one when they are committed."""

    directory: pathlib.Path
    """Where they are."""

    stored: workload.StoredCheckpoint
    """What it becomes."""


def stage(
    controller: base_trial.TrialController,
    spec: trial.TrialSpec,
    total_batches: int,
    storage: checkpoint_storage.TrialStorage,
) -> Staged:
    """Writes the files of a checkpoint.

    Raises:
        CheckpointError: If they can't be written; nothing is left then.
        NoRoomError: If the disk is full; the same.
    """
    name = str(uuid.uuid4())
    directory = storage.stage(name)
    with _removed_on_error(storage, directory, name):
        rank_files.save(controller, directory)
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
            hashes=checkpoint_manifest.hash_files(directory),
            sizes=checkpoint_manifest.list_files(directory),
        )
        text = json.dumps(dataclasses.asdict(manifest), indent=2, default=str)
        (directory / checkpoint_manifest.FILE_NAME).write_text(text, encoding="utf-8")
        files = checkpoint_manifest.list_files(directory)
    return Staged(directory, workload.StoredCheckpoint(uuid=name, files=files))


def find_place(storage: checkpoint_storage.TrialStorage) -> pathlib.Path:
    """Returns the directory of this machine in which the files of a checkpoint are written.

    Raises:
        NoRoomError: If it can't be made, as the disk is full.
    """
    name = str(uuid.uuid4())
    directory = storage.stage(name)
    storage.discard(directory, name)
    return directory.parent


def commit(staged: Staged, storage: checkpoint_storage.TrialStorage) -> workload.StoredCheckpoint:
    """Makes files a checkpoint, which appears under its name when it is complete.

    Raises:
        CheckpointError: If it can't be written; nothing is left then.
    """
    with _removed_on_error(storage, staged.directory, staged.stored.uuid):
        storage.commit(staged.directory, staged.stored.uuid)
    return staged.stored


def save(
    controller: base_trial.TrialController,
    spec: trial.TrialSpec,
    total_batches: int,
    storage: checkpoint_storage.TrialStorage | None = None,
) -> workload.StoredCheckpoint:
    """Writes a checkpoint, and waits until it is one; see `stage` and `commit`.

    Without a storage it is kept in the directory that the trial names. If a disk is full, this
    waits until there is room.
    """
    storage = storage or directory_storage.DirectoryStorage(pathlib.Path(spec.checkpoint_dir))

    def write() -> workload.StoredCheckpoint:
        staged = stage(controller, spec, total_batches, storage)
        drawn = random.getstate()
        try:
            return commit(staged, storage)
        finally:
            # Clients of object stores draw from it when they wait; a restored trial would not have.
            random.setstate(drawn)

    return outlast_full_disks(controller, write)


def outlast_full_disks(controller: base_trial.TrialController, write: Callable[[], T]) -> T:
    """Calls what writes a checkpoint, and again while a disk is full; returns its result.

    The state of a trial that does nothing else meanwhile is the same when it is written again.
    Processes that save together can't do so again one by one: they wait for room before they begin
    (`shared_disk_space`). Where it does not do after all, they end, and go on from their last
    checkpoint.
    """
    if controller.context.distributed.size > 1:
        return write()
    return retries.outlast_full_disks(write, doing="saving a checkpoint")


@contextlib.contextmanager
def _removed_on_error(
    storage: checkpoint_storage.TrialStorage, directory: pathlib.Path, name: str
) -> Iterator[None]:
    try:
        yield
    except BaseException as error:
        storage.discard(directory, name)
        where = f"{directory.parent}: a checkpoint could not be written"
        # Whatever the trial's code, or a library, makes of it.
        if retries.is_about_room(error):
            raise errors.NoRoomError(f"{where}: {retries.describe(error)}") from error
        if isinstance(error, OSError):
            raise retries.find_kind(error)(f"{where}: {error}.") from error
        raise


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
    own = rank_files.find(directory, controller.context.distributed)
    random_state.restore(own / rank_files.RANDOM_FILE)
    return manifest.total_batches
