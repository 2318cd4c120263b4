"""Where the files of checkpoints and of users' code are, and copies of them."""

import pathlib
import shutil
from collections.abc import Iterable

from quintain import errors
from quintain.client import fetched_files
from quintain.records import checkpoint as checkpoint_lib
from quintain.records import experiment as experiment_lib


def find_checkpoint_dir(
    checkpoint: checkpoint_lib.Checkpoint,
    experiment: experiment_lib.Experiment,
    default_root: pathlib.Path,
) -> pathlib.Path:
    """Returns the directory of a checkpoint that can be used.

    Args:
        checkpoint: The checkpoint.
        experiment: Its experiment.
        default_root: Directory of the checkpoints of experiments that name none.

    Raises:
        CheckpointError: If it was deleted, or its directory is not there.
    """
    if checkpoint.state is checkpoint_lib.CheckpointState.DELETED:
        raise errors.CheckpointError(
            f"checkpoint {checkpoint.uuid}: its files were deleted; checkpoint_storage says which "
            "checkpoints are kept when an experiment ends."
        )
    # Commands that only read need not wait for it.
    from quintain.records import experiment_spec  # noqa: PLC0415

    root = experiment_spec.find_checkpoint_directory(experiment.config, str(default_root))
    directory = pathlib.Path(root, checkpoint.uuid)
    if not directory.is_dir():
        raise errors.CheckpointError(
            f"checkpoint {checkpoint.uuid}: its directory {directory} is not there."
        )
    return directory


def list_files(directory: pathlib.Path) -> list[str]:
    """Returns the paths of all files below a directory, sorted, relative to it.

    Links that lead out of the directory are no files of it.
    """
    root = directory.resolve()
    return sorted(
        path.relative_to(directory).as_posix()
        for path in directory.rglob("*")
        if path.is_file() and path.resolve().is_relative_to(root)
    )


def find_file(directory: pathlib.Path, name: str) -> pathlib.Path:
    """Returns the path of a file below a directory.

    Raises:
        NotFoundError: If there is no such file, or it is not below the directory.
    """
    path = (directory / name).resolve()
    if not path.is_relative_to(directory.resolve()) or not path.is_file():
        raise errors.NotFoundError(f"file {name[:200]!r}: there is none of this name.")
    return path


def copy_files(source: pathlib.Path, names: Iterable[str], target: pathlib.Path) -> list[str]:
    """Copies files below one directory into another and returns their paths.

    Raises:
        NotFoundError: If one of them is not there.
    """
    copied = []
    for name in names:
        path = fetched_files.make_target(target, name)
        shutil.copyfile(find_file(source, name), path)
        copied.append(str(path))
    return copied
