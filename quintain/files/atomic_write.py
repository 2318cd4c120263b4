"""Atomic write: a reader finds the old content of a file or the new one, never a part.

A process may be killed and a machine lose its power at any moment. So a file is written beside its
place, forced to the disk, and moved there; then the directory, which holds the new name, is forced
to the disk as well. Behind a URL a file is written under another name and renamed. An object store
knows no renaming, but there an object appears when it is complete; so it is written at once.
"""

import os
import pathlib
import uuid
from typing import Final

from quintain.files import file_paths

SCRATCH_SUFFIX: Final = ".incomplete"
"""Suffix of a file's name while it is written."""

_NUM_SYNCING: Final = 16


def write_atomically(
    path: str | os.PathLike[str],
    content: str | bytes,
    *,
    mode: int = 0o666,
    has_rivals: bool = False,
) -> None:
    """Writes a file in place of the one that is there, if any.

    Args:
        path: The file. Its directory exists.
        content: What it is to hold; text is written as UTF-8, line ends as they are.
        mode: Permissions of a local file, less the umask.
        has_rivals: Whether other processes may write the same file at the same time.

    Raises:
        OSError: If it can't be written; the former file is then as it was.

    Example:
        >>> import tempfile
        >>> path = os.path.join(tempfile.mkdtemp(), "state.json")
        >>> write_atomically(path, "{}")
        >>> os.listdir(os.path.dirname(path))
        ['state.json']
    """
    path = os.fspath(path)
    data = content.encode() if isinstance(content, str) else content
    if not file_paths.is_local(path):
        _write_remotely(path, data)
        return
    scratch = f"{path}.{uuid.uuid4().hex}{SCRATCH_SUFFIX}" if has_rivals else path + SCRATCH_SUFFIX
    # A scratch file that a killed process left may have other permissions.
    pathlib.Path(scratch).unlink(missing_ok=True)
    try:
        descriptor = os.open(scratch, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
        with open(descriptor, "wb") as file:
            file.write(data)
        publish(scratch, path)
    except BaseException as error:
        pathlib.Path(scratch).unlink(missing_ok=True)
        if isinstance(error, OSError) and error.filename is None:
            error.filename = path  # The system names what it can't open, not what it can't write.
        raise


def _write_remotely(path: str, data: bytes) -> None:
    from quintain.files import file_io  # noqa: PLC0415 - small programs write local files only

    scratch = path
    if not file_paths.is_object(path):
        scratch = f"{path}.{uuid.uuid4().hex}{SCRATCH_SUFFIX}"
    try:
        with file_io.open(scratch, "wb") as file:
            file.write(data)
        if scratch != path:
            publish(scratch, path)
    except BaseException:
        if scratch != path and file_io.exists(scratch):
            file_io.remove(scratch)
        raise


def publish(scratch: str, path: str) -> None:
    """Moves a written file to its place, over one that is there; both are in one directory.

    Raises:
        OSError: If it can't be moved.
    """
    if not file_paths.is_local(path):
        from quintain.files import file_io  # noqa: PLC0415 - as above

        file_io.rename(scratch, path)
        return
    sync(scratch)
    os.replace(scratch, path)
    sync(os.path.dirname(path))


def sync(path: str | os.PathLike[str]) -> None:
    """Forces a file to the disk, or the names in a directory, after files were made or moved."""
    descriptor = os.open(os.fspath(path) or os.curdir, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def sync_tree(directory: pathlib.Path) -> None:
    """Waits until a directory and all files below it are on the disk.

    Many files are waited for at once, which file systems write together.
    """
    from concurrent import futures  # noqa: PLC0415 - small programs write single files

    paths = [path for path in directory.rglob("*") if not path.is_symlink()]
    with futures.ThreadPoolExecutor(_NUM_SYNCING) as threads:
        for _ in threads.map(sync, [*paths, directory]):
            pass
