"""One training at a time in a directory: the second is told who is there.

The lock is `flock` on `run.lock`, which the system releases when its holder ends, however it ends;
what the file says is for people. Over NFS it holds between machines. Where there are no such locks
(`gs://...`, some network disks) nothing keeps a second training out; the log says so.
"""

import contextlib
import fcntl
import json
import logging
import os
import shlex
import socket
import sys
import time
from collections.abc import Iterator
from typing import Any, Final

from quintain import errors
from quintain.files import file_io, file_paths, whole_files

FILE_NAME: Final = "run.lock"
_SHOWN_CHARACTERS: Final = 200
_held: Final[set[int]] = set()

logger = logging.getLogger(__name__)


@contextlib.contextmanager
def hold(model_dir: str | None, *, is_needed: bool = True) -> Iterator[None]:
    """Keeps other trainings out of a directory; it is made if need be, and goes if it stays empty.

    A process that this one forks does not hold the lock, and does not keep it when this one ends.

    Args:
        model_dir: The directory. None or empty: there is nothing to keep.
        is_needed: Whether this process writes there as a training does. An evaluation does not: it
            adds to records that trainings and evaluations take turns to write.

    Raises:
        ConfigError: If another run holds it; the message says which. If TensorFlow can't write
            there, whether needed or not.
        OutputError: If the file can't be written.
    """
    if model_dir:
        file_io.check_writable(model_dir, "model_dir")
    if not model_dir or not is_needed:
        yield
        return
    if not file_paths.is_local(model_dir):
        logger.info("%s: has no locks; see to it that only one run writes there.", model_dir)
        yield
        return
    is_new = not os.path.isdir(model_dir)
    path = os.path.join(model_dir, FILE_NAME)
    with whole_files.write_errors_explained(path):
        os.makedirs(model_dir, exist_ok=True)
        descriptor = _acquire(path, model_dir)
    _held.add(descriptor)
    try:
        yield
    finally:
        _release(path, descriptor)
        with contextlib.suppress(OSError):  # Of a directory that is not empty, or gone.
            if is_new:
                os.rmdir(model_dir)


def _acquire(path: str, model_dir: str) -> int:
    """Returns the descriptor of the locked file, which says whose it is."""
    while True:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
        try:
            _lock(descriptor, model_dir)
            if _is_at(descriptor, path):
                os.ftruncate(descriptor, 0)
                os.write(descriptor, json.dumps(_describe_self(), indent=2).encode())
                return descriptor
        except BaseException:
            os.close(descriptor)
            raise
        os.close(descriptor)  # Its holder has just ended and deleted it.


def _lock(descriptor: int, model_dir: str) -> None:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        raise errors.ConfigError(
            f"model_dir: {model_dir!r} is in use by {_describe_holder(descriptor)}. Two runs can't "
            "write to one directory: wait for its end, stop it, or give another directory."
        ) from error
    except OSError as error:
        if error.errno not in whole_files.NO_LOCKS:
            raise
        logger.warning(
            "%s: this file system has no locks (%s); see to it that only one run writes there.",
            model_dir, error.strerror,
        )  # fmt: skip


def _is_at(descriptor: int, path: str) -> bool:
    """True if an open file is still the one at a path."""
    try:
        return os.path.samestat(os.fstat(descriptor), os.stat(path))
    except FileNotFoundError:
        return False


def _release(path: str, descriptor: int) -> None:
    """Deletes the file while it is still locked, so that nobody else can be in between.

    Where it can't be deleted any more it stays, unlocked: it is the lock that counts, and what ends
    the run is to be told, not this.
    """
    _held.discard(descriptor)
    with contextlib.suppress(OSError):
        if _is_at(descriptor, path):
            os.unlink(path)
    os.close(descriptor)


def _describe_self() -> dict[str, Any]:
    name = os.path.basename(sys.argv[0] or "python")
    command = shlex.join([name, *sys.argv[1:]])
    if len(command) > _SHOWN_CHARACTERS:
        command = f"{command[:_SHOWN_CHARACTERS]} ..."
    return {
        "pid": os.getpid(),
        "host": socket.gethostname(),
        "since": time.strftime("%Y-%m-%d %H:%M:%S %z"),
        "command": command,
    }


def _describe_holder(descriptor: int) -> str:
    try:
        holder = json.loads(os.pread(descriptor, 1 << 16, 0))
        return (
            f"another run: process {holder['pid']} on {holder['host']}, since {holder['since']} "
            f"({holder['command']})"
        )
    except (ValueError, LookupError, TypeError):
        return f"another run, which {FILE_NAME} does not name"


def _close_in_fork() -> None:
    """Gives the copies up that a fork has of locked files; the parent keeps its locks."""
    for descriptor in _held:
        os.close(descriptor)
    _held.clear()


os.register_at_fork(after_in_child=_close_in_fork)
