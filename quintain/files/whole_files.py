"""Files of a run, wherever its directory is: written atomically, read, and errors in words."""

import contextlib
import contextvars
import errno
import fcntl
import json
import os
import re
from collections.abc import Callable, Iterator
from typing import Any, Final

import tensorflow as tf

from quintain import errors
from quintain.files import atomic_write, disk_errors, file_io, file_paths

ERRORS: Final = (tf.errors.OpError, OSError)
"""Errors of reading and writing."""

SCRATCH_SUFFIX: Final = atomic_write.SCRATCH_SUFFIX

_OPERATION: Final = re.compile(r"^\{\{.*?\}\} | \[Op:.*")

NO_LOCKS: Final = (errno.ENOLCK, errno.EOPNOTSUPP, errno.ENOSYS, errno.EINVAL, errno.EBADF)
"""Errors of file systems without locks."""

_created: contextvars.ContextVar[list[str] | None] = contextvars.ContextVar("created", default=None)


def write(path: str | os.PathLike[str], content: str | bytes, *, has_rivals: bool = False) -> None:
    """Writes a file in place of the one that is there, if any; its directory is made.

    Args:
        path: The file.
        content: What it is to hold; text is written as UTF-8.
        has_rivals: Whether other processes may write the same file at the same time.

    Raises:
        OutputError: If it can't be written; the former file is then as it was.

    Example:
        >>> import tempfile
        >>> path = file_paths.join(tempfile.mkdtemp(), "a", "state.json")
        >>> write(path, '{"step": 3}')
        >>> read_json(path), os.listdir(file_paths.dirname(path))
        ({'step': 3}, ['state.json'])
    """
    path = os.fspath(path)
    with write_errors_explained(path):
        if directory := file_paths.dirname(path):
            _note(directory)
            file_io.makedirs(directory)
        _note(path)
        atomic_write.write_atomically(path, content, has_rivals=has_rivals)


def append(path: str, line: str) -> None:
    """Adds a line to a file. A kill or a power cut may leave a part of it.

    Raises:
        OutputError: If it can't be written.
    """
    with write_errors_explained(path):
        _note(path)
        with file_io.open(path, "a") as file:
            file.write(f"{line}\n")


def publish(scratch: str, path: str) -> None:
    """Moves a written file to its place, over one that is there; both are in one directory."""
    _note(path)
    atomic_write.publish(scratch, path)


def read_json(path: str) -> Any:
    """Returns what a JSON file holds.

    Raises:
        DamagedFileError: If it is empty, cut, or no JSON; the message names it.
    """
    with damage_explained(path):
        return json.loads(file_io.read_bytes(path))


def keep_json(directory: str, name: str, find: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """Returns the object in a file of a run's directory; the first time, writes what is found.

    Whoever goes on with the run, or uses its model, gets what the weights were trained with.

    Args:
        directory: The run's directory; empty keeps nothing.
        name: Name of the file, which is JSON.
        find: Makes the object where there is no file, as from the training data.

    Raises:
        DamagedFileError: If the file is damaged.
    """
    path = file_paths.join(directory, name) if directory else ""
    if path and file_io.exists(path):
        kept: dict[str, Any] = read_json(path)
        if not isinstance(kept, dict):
            raise damaged(path, f"got {kept!r}, expected an object")
        return kept
    found = find()
    if path:
        file_io.makedirs(directory)
        write(path, f"{json.dumps(found, indent=2, ensure_ascii=False)}\n", has_rivals=True)
    return found


@contextlib.contextmanager
def damage_explained(path: str) -> Iterator[None]:
    """Turns what making sense of a file raises inside into an error that names the file.

    Raises:
        DamagedFileError: If it can't be understood.
    """
    try:
        yield
    except (ValueError, RecursionError, LookupError, TypeError, AttributeError) as error:
        if isinstance(error, errors.DamagedFileError):
            raise
        raise damaged(path, f"{type(error).__name__}: {error}") from error


def damaged(path: str, reason: str) -> errors.DamagedFileError:
    """Returns the error that says that a file of a run can't be understood, and what to do."""
    return errors.DamagedFileError(
        f"{path}: can't be understood ({reason}). It was cut or damaged after it was written. Put "
        "back a copy, or move it away: the run then goes on without what it says."
    )


@contextlib.contextmanager
def write_errors_explained(path: str) -> Iterator[None]:
    """Turns the errors of writing inside into one that names the file and says what to do.

    Raises:
        OutputError: If it can't be written.
    """
    try:
        yield
    except ERRORS as error:
        raise errors.OutputError(f"{path}: can't be written: {advise(error, path)}") from error


def describe(error: Exception, path: str = "") -> str:
    """Returns what the system says of an error, and what to do where that is known.

    Args:
        error: The error.
        path: The file that is named already, before what is returned.
    """
    text = disk_errors.explain(error) or str(getattr(error, "message", None) or error)
    line = _OPERATION.sub("", text.strip().partition("\n")[0]).removeprefix(f"{path}: ").rstrip(".")
    return f"{line}."


def advise(error: Exception, path: str = "") -> str:
    """Returns the same of an error of writing that ends a command.

    The command is to be given again only where something can be mended before: else it would fail
    as it did.
    """
    is_mendable = disk_errors.is_mendable(error)
    return describe(error, path) + (" Then run the command again." if is_mendable else "")


@contextlib.contextmanager
def new_paths_recorded() -> Iterator[list[str]]:
    """Yields a list that gets the path of every file and directory newly made here inside."""
    created: list[str] = []
    token = _created.set(created)
    try:
        yield created
    finally:
        _created.reset(token)


def _note(path: str) -> None:
    created = _created.get()
    if created is not None and path not in created and not file_io.exists(path):
        created.append(path)


@contextlib.contextmanager
def directory_locked(directory: str) -> Iterator[None]:
    """Lets one process at a time read and rewrite files of a directory, for a moment.

    A training and an evaluation may record into the same files. Where the file system offers no
    locks nobody waits.

    Raises:
        OutputError: If it can't be made.
    """
    with write_errors_explained(directory):
        file_io.makedirs(directory or os.curdir)
    if not file_paths.is_local(directory):
        yield
        return
    descriptor = os.open(directory or os.curdir, os.O_RDONLY | os.O_DIRECTORY)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        except OSError as error:
            if error.errno not in NO_LOCKS:
                raise
        yield
    finally:
        os.close(descriptor)
