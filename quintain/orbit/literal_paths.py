r"""Paths that TensorFlow's readers take as they are.

TensorFlow 2.21 looks for the files of a checkpoint or a SavedModel by a pattern, even where it is
given a path: of a run in `lr[0.1]` it finds nothing, or the files of `lr0`. Its writers do not. So
whatever is to be read goes by a symbolic link, whose own path says nothing special.
"""

import atexit
import functools
import os
import re
import tempfile
from typing import Final

from quintain import errors

_SPECIAL: Final = re.compile(r"[\[\]*?\\]")


def checkpoint(prefix: str | os.PathLike[str]) -> str:
    """Returns a path by which TensorFlow reads just this checkpoint.

    Args:
        prefix: Prefix of its files.

    Raises:
        CheckpointError: If its own name, or a path that can't be linked to, has such characters.
    """
    path = os.fspath(prefix)
    name = os.path.basename(path)
    if _SPECIAL.search(name):
        raise errors.CheckpointError(
            f"The checkpoint {path!r} can't be read: TensorFlow takes the characters * ? [ ] \\ in "
            "its name for a pattern. Rename its files."
        )
    return os.path.join(directory(os.path.dirname(path)), name)


def directory(path: str | os.PathLike[str]) -> str:
    """Returns a path by which TensorFlow reads just the files of this directory.

    Raises:
        CheckpointError: If the path has such characters and can't be linked to.
    """
    path = os.fspath(path)
    if not _SPECIAL.search(path):
        return path
    if "://" in path:
        raise errors.CheckpointError(
            f"{path!r} can't be read: TensorFlow takes the characters * ? [ ] \\ for a pattern, "
            "and there are no links on this file system. Rename the directory."
        )
    return _link(os.path.abspath(path), os.getpid())


@functools.cache
def _link(path: str, pid: int) -> str:
    """Makes a link that lasts as long as the process: TensorFlow reads some values later."""
    scratch = tempfile.mkdtemp(prefix="quintain-")
    link = os.path.join(scratch, "directory")
    os.symlink(path, link)
    atexit.register(_unlink, scratch, link, pid)
    return link


def _unlink(scratch: str, link: str, pid: int) -> None:
    if os.getpid() == pid:  # Not in a fork, which has inherited this.
        os.unlink(link)
        os.rmdir(scratch)
