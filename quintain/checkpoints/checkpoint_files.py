"""Files of checkpoints: the step they are of, and how to be rid of them."""

import re
from collections.abc import Sequence
from typing import Final

from quintain import errors
from quintain.checkpoints import checkpoint_fit
from quintain.files import file_io, file_paths, whole_files

_LIST: Final = "checkpoint"
_OWN_FILE: Final = re.compile(rf"ckpt-\d+\.(index|data-\d{{5}}-of-\d{{5}})|{_LIST}")


class MissingStepError(errors.CheckpointError, ValueError):
    """A checkpoint does not exist, or holds no `global_step`."""


def read_global_step_from_checkpoint(ckpt_file_path: str) -> int:
    """Returns the training step of a checkpoint.

    Raises:
        MissingStepError: If it does not exist, or does not tell.
    """
    try:
        return checkpoint_fit.read_step(ckpt_file_path)
    except errors.CheckpointError as error:
        raise MissingStepError(f"global_step not found. {error}") from error


def remove_ckpts(model_dir: str) -> None:
    """Removes the checkpoints of a directory (`ckpt-STEP`) and the file that lists them.

    Args:
        model_dir: The directory. Everything else in it stays, whatever it is called.
    """
    for name in filter(_OWN_FILE.fullmatch, file_io.listdir(model_dir)):
        file_io.remove(file_paths.join(model_dir, name))


def remove_incomplete(directory: str, files: Sequence[str] = ()) -> None:
    """Removes what a killed process left of unfinished checkpoints and files of a run.

    Args:
        directory: The run's directory.
        files: Names of the files that the run writes besides its checkpoints.
    """
    if not file_io.isdir(directory):
        return
    scratches = {f"{name}{whole_files.SCRATCH_SUFFIX}" for name in (_LIST, *files)}
    unfinished = re.compile(r"ckpt-\d+" + re.escape(whole_files.SCRATCH_SUFFIX))
    for name in file_io.listdir(directory):
        path = file_paths.join(directory, name.rstrip("/"))
        if name in scratches:
            file_io.remove(path)
        elif unfinished.fullmatch(name.rstrip("/")) and file_io.isdir(path):
            file_io.rmtree(path)
