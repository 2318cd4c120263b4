r"""Paths that TensorFlow's readers take as they are.

TensorFlow 2.21 looks for the files of a checkpoint or a SavedModel by a pattern, even where it is
given a path: of a run in `lr[0.1]` it finds nothing, or the files of `lr0`. Its writers do not. So
whatever is to be read goes by a symbolic link, whose own path says nothing special. What lies where
TensorFlow can't reach it, but fsspec can, is read from a local copy.
"""

import atexit
import functools
import os
import re
import tempfile
from typing import Any, Final

import tensorflow as tf

from quintain import errors
from quintain.files import file_io, file_paths, file_systems

_SPECIAL: Final = re.compile(r"[\[\]*?\\]")


def read(prefix: str | os.PathLike[str]) -> Any:
    """Returns a reader of just this checkpoint, as `tf.train.load_checkpoint` does.

    That one takes a name in `ram://` for a directory.

    Raises:
        CheckpointError: As `checkpoint`.
        OpError: If there is none, or it is damaged.
    """
    return tf.compat.v1.train.NewCheckpointReader(checkpoint(prefix))


def checkpoint(prefix: str | os.PathLike[str]) -> str:
    """Returns a path by which TensorFlow reads just this checkpoint.

    Raises:
        CheckpointError: If its own name, or a path that can't be linked to, has such characters; or
            if its files can't be copied to where TensorFlow can read them.
    """
    path = os.fspath(prefix)
    name = file_paths.basename(path)
    if _SPECIAL.search(name):
        raise errors.CheckpointError(
            f"The checkpoint {path!r} can't be read: TensorFlow takes the characters * ? [ ] \\ in "
            "its name for a pattern. Rename its files."
        )
    if not file_systems.is_known_to_tensorflow(path):
        return _fetch(path)
    return file_paths.join(directory(file_paths.dirname(path)), name)


def directory(path: str | os.PathLike[str]) -> str:
    """Returns a path by which TensorFlow reads just the files of this directory.

    Raises:
        CheckpointError: If the path has such characters and can't be linked to.
    """
    path = os.fspath(path)
    if not file_systems.is_known_to_tensorflow(path):
        return _fetch(path)
    if not _SPECIAL.search(path):
        return path
    if not file_paths.is_local(path):
        raise errors.CheckpointError(
            f"{path!r} can't be read: TensorFlow takes the characters * ? [ ] \\ for a pattern, "
            "and there are no links on this file system. Rename the directory."
        )
    return _link(file_paths.absolute(path), os.getpid())


def _fetch(path: str) -> str:
    try:
        return file_io.fetch(path)
    except OSError as error:
        raise errors.CheckpointError(
            f"{path!r} can't be read: {error.strerror or error}. Check the path."
        ) from error


@functools.cache
def _link(path: str, pid: int) -> str:
    """Makes a link that lasts as long as the process: TensorFlow reads some values later."""
    scratch = tempfile.mkdtemp(prefix="quintain-")
    link = file_paths.join(scratch, "directory")
    os.symlink(path, link)
    atexit.register(_unlink, scratch, link, pid)
    return link


def _unlink(scratch: str, link: str, pid: int) -> None:
    if os.getpid() == pid:  # Not in a fork, which has inherited this.
        os.unlink(link)
        os.rmdir(scratch)
