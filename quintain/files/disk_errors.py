"""Errors of disks and of files: which file, why, what to do, and whether it may pass."""

import contextlib
import errno
import json
import os
import pathlib
import re
import shutil
import tempfile
from typing import Any, Final

from quintain import errors

_ADVICE: Final = {
    errno.EACCES: "Check the owner and the permissions of file and directory",
    errno.EPERM: "Check the owner and the permissions of file and directory",
    errno.EROFS: "Make the disk writable, or choose another directory",
    errno.ENOSPC: "Free some space, or choose another directory",
    errno.EDQUOT: "Free some space or get a larger quota, or choose another directory",
    errno.ENAMETOOLONG: "Choose a shorter name",
    errno.EIO: "The disk or the network fails: look at the log of the system",
    errno.ESTALE: "The disk is gone: see whether it is mounted",
    errno.EMFILE: "Let the process open more files (`ulimit -n`)",
    errno.ENFILE: "Too many files are open on this machine",
    errno.ENOMEM: "There is not enough memory, or the process may not use it (`ulimit -v`)",
    errno.ENOTDIR: "A file is where a directory is needed: move it away",
    errno.EISDIR: "A directory is where a file is needed: move it away",
}
_SHARED_MEMORY: Final = "/dev/shm"
_NO_ROOM_BYTES: Final = 1 << 20
_PROBE_BYTES: Final = 1 << 16
_FULL: Final = frozenset({errno.ENOSPC, errno.EDQUOT})
_LOST: Final = frozenset({errno.EIO, errno.EROFS, errno.ESTALE, errno.ENODEV, errno.ENXIO})
_TRANSIENT: Final = _LOST | {
    errno.EACCES,
    errno.EPERM,
    errno.EMFILE,
    errno.ENFILE,
    errno.ENOMEM,
    errno.ENOTCONN,
}
_OF_TARGETS: Final = _FULL | {errno.EROFS}
_CODES: Final = {os.strerror(code): code for code in (*_ADVICE, errno.ENOENT, errno.EEXIST)}
_IN_TENSORFLOW: Final = re.compile(
    rf"\s*(?:{{{{.*?}}}} )?(?P<path>[^;\n]*); (?P<reason>{'|'.join(map(re.escape, _CODES))})\b"
)


def explain(error: BaseException) -> str | None:
    """Returns which file the system refuses, why, and what to do; None for other errors.

    Args:
        error: An `OSError` of a file, or one of TensorFlow's, which ends in what the system says.

    Example:
        >>> print(explain(PermissionError(13, "Permission denied", "runs/a/x")))
        runs/a/x: Permission denied. Check the owner and the permissions of file and directory.
    """
    found = _find_refusal(error)
    if found is None:
        return None
    where, reason, code = found
    if code == errno.ENOSPC and not where:
        # A call that writes into an open file does not say which one that is.
        where = ", ".join(_find_full_places())
    begin = f"{where}: {reason}" if where else str(reason)
    return f"{begin}. {_ADVICE[code]}." if code in _ADVICE else f"{begin}."


def is_mendable(error: BaseException) -> bool:
    """True if it is known what to do about an error, so that the same may go well then."""
    found = _find_refusal(error)
    return found is not None and found[-1] in _ADVICE


def is_transient(error: BaseException) -> bool:
    """True if a file can't be read or looked at now, which says nothing about what is in it.

    It is neither missing nor damaged: it is another user's, say, or its disk is away.
    """
    found = _find_refusal(error)
    return found is not None and found[-1] in _TRANSIENT


def _find_refusal(error: BaseException) -> tuple[str, str, int] | None:
    """Returns which file the system refuses, if it is said, why, and the number of that."""
    if isinstance(error, OSError):
        if error.errno is None or (error.filename is None and error.errno not in _ADVICE):
            return None
        # Where a copy fails for want of room, it is its target that has none.
        file = error.filename2 if error.errno in _OF_TARGETS and error.filename2 else error.filename
        return os.fsdecode(file or ""), str(error.strerror), error.errno
    found = _IN_TENSORFLOW.match(str(getattr(error, "message", "")))
    return None if found is None else (found["path"], found["reason"], _CODES[found["reason"]])


def _find_full_places() -> list[str]:
    """Returns which of the places that programs write to without being told have no room."""
    found: dict[int, str] = {}
    for place in (os.curdir, tempfile.gettempdir(), _SHARED_MEMORY):
        with contextlib.suppress(OSError):
            if shutil.disk_usage(place).free < _NO_ROOM_BYTES:
                found.setdefault(os.stat(place).st_dev, os.path.abspath(place))
    return list(found.values())


def is_full(error: BaseException) -> bool:
    """True if an error says that a disk or a quota is full, be it the system's or a library's."""
    if isinstance(error, OSError) and error.errno in _FULL:
        return True
    # TensorFlow, HDF5 and others say in their errors what the system has said.
    text = str(error)
    return any(os.strerror(code) in text for code in _FULL)


def is_lost(error: BaseException) -> bool:
    """True if an error says that a disk is broken, gone, or read-only, whichever file it names."""
    if not isinstance(error, OSError):
        return False
    # What a file system in a process says that has ended; of a socket it means something else.
    return error.errno in _LOST or (error.errno == errno.ENOTCONN and error.filename is not None)


def check_disk(directory: str | os.PathLike[str]) -> None:
    """Writes something to the disk of a directory, which is gone again when this returns.

    Raises:
        OSError: If the disk is full, read-only, broken or not there; it names the directory.
    """
    try:
        with tempfile.TemporaryFile(dir=directory) as file:
            file.write(bytes(_PROBE_BYTES))
            file.flush()
            os.fsync(file.fileno())
    except OSError as error:
        error.filename = os.fspath(directory)
        raise


def read_json(path: str | os.PathLike[str]) -> Any:
    """Returns what a JSON file holds.

    Raises:
        DamagedFileError: If it is empty, cut, or no JSON; the message names it.
        OSError: If it can't be read.
    """
    data = pathlib.Path(path).read_bytes()
    try:
        return json.loads(data)
    except (ValueError, RecursionError) as error:
        raise errors.DamagedFileError(
            f"{os.fspath(path)}: can't be understood ({len(data)} bytes; {error}). It was cut or "
            "damaged after it was written."
        ) from error
