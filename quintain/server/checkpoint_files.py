"""Locations and copies of checkpoints and of users' code."""

import dataclasses
import pathlib
import shutil
from typing import BinaryIO

from quintain import errors
from quintain.records.rows import checkpoint as checkpoint_lib
from quintain.records.rows import experiment as experiment_lib
from quintain.records.views import file_listing
from quintain.storage import checkpoint_storage, directory_storage


@dataclasses.dataclass(frozen=True)
class StoredFiles:
    """All files of a checkpoint, or below a directory of this machine."""

    storage: checkpoint_storage.CheckpointStorage
    """Where it is."""

    name: str
    """Its name there."""

    local: pathlib.Path | None = None
    """The directory, if it is one of this machine."""

    @classmethod
    def below(cls, directory: pathlib.Path) -> "StoredFiles":
        """Returns those below a directory; links that lead out of it are no files of it."""
        storage = directory_storage.DirectoryStorage(directory.parent)
        return cls(storage, directory.name, directory)

    def list_sizes(self) -> dict[str, int]:
        """Returns the sizes in bytes of all files by their paths, sorted.

        Raises:
            CheckpointError: If they can't be read.
        """
        return self.storage.find_files(self.name)

    def open(self, path: str) -> BinaryIO:
        """Opens one of them.

        Raises:
            NotFoundError: If there is no such file, or it is not one of these.
            CheckpointError: If it can't be read.
        """
        return self.storage.open(self.name, path)

    def copy(self, target: pathlib.Path) -> list[str]:
        """Copies all of them into a directory, and returns their paths.

        Raises:
            CheckpointError: If they can't be read.
            DataError: If one would lead out of the directory.
        """
        copied = []
        for name in self.list_sizes():
            path = file_listing.make_target(target, name)
            with self.open(name) as source, path.open("wb") as file:
                shutil.copyfileobj(source, file, checkpoint_storage.PIECE_BYTES)
            copied.append(str(path))
        return copied


def find_file(directory: pathlib.Path, name: str) -> pathlib.Path:
    """Returns the path of a file below a directory.

    Raises:
        NotFoundError: If there is no such file, or it is not below the directory.
    """
    with StoredFiles.below(directory).open(name):
        return (directory / name).resolve()


def find_checkpoint(
    checkpoint: checkpoint_lib.Checkpoint,
    experiment: experiment_lib.Experiment,
    default_root: pathlib.Path,
) -> StoredFiles:
    """Returns the files of a checkpoint that can be used.

    Args:
        checkpoint: The checkpoint.
        experiment: Its experiment.
        default_root: Directory of the checkpoints of experiments that name none.

    Raises:
        CheckpointError: If it was deleted, or nothing of it is there.
    """
    if checkpoint.state is checkpoint_lib.CheckpointState.DELETED:
        raise errors.CheckpointError(
            f"checkpoint {checkpoint.uuid}: its files were deleted; checkpoint_storage says which "
            "checkpoints are kept when an experiment ends."
        )
    # Commands that only read need not wait for it.
    from quintain.storage import storages  # noqa: PLC0415

    storage = storages.build(experiment.config, default_root)
    if storages.is_remote(storage.address):
        storage.list_files(checkpoint.uuid)
        return StoredFiles(storage, checkpoint.uuid)
    directory = pathlib.Path(storage.locate(checkpoint.uuid))
    if not directory.is_dir():
        raise errors.CheckpointError(
            f"checkpoint {checkpoint.uuid}: its directory {directory} is not there."
        )
    return StoredFiles.below(directory)
