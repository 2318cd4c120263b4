"""Local copies of files that TensorFlow can't reach, one for each URL."""

import contextlib
import hashlib
import logging
import os
import pathlib
import shutil
import tempfile
import uuid
from typing import Any, Final

from quintain import file_paths

_MARK: Final = ".version"

logger = logging.getLogger(__name__)


def copy(system: Any, path: str) -> str:
    """Returns the path of an up-to-date local copy of a file or a directory.

    Args:
        system: The file system of fsspec that has it.
        path: Its URL.

    Raises:
        OSError: If the copy can't be written.
    """
    path = file_paths.normal(path)
    place = _directory() / hashlib.sha256(path.encode()).hexdigest()[:32]
    target = place / (file_paths.basename(path) or "root")
    version = _version(system, path)
    mark = place / _MARK
    with contextlib.suppress(FileNotFoundError):
        if mark.read_text(encoding="utf-8") == version and target.exists():
            return str(target)
    scratch = place.with_name(f"{place.name}.{uuid.uuid4().hex}")
    scratch.mkdir()
    try:
        system.get(path, str(scratch / target.name), recursive=system.isdir(path))
        (scratch / _MARK).write_text(version, encoding="utf-8")
        shutil.rmtree(place, ignore_errors=True)
        with contextlib.suppress(FileExistsError):  # Another process has just made the same.
            scratch.rename(place)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    logger.info("%s: copied to %s, because TensorFlow can't read it where it is.", path, target)
    return str(target)


def _version(system: Any, path: str) -> str:
    """Returns text that changes when a file, or one below a directory, is written anew."""
    found = system.find(path) if system.isdir(path) else [path]
    keys = [f"{name} {system.ukey(name)}" for name in sorted(found)]
    return hashlib.sha256("\n".join(keys).encode()).hexdigest()


def _directory() -> pathlib.Path:
    """Returns the directory of this user's copies, which nobody else may write to."""
    directory = pathlib.Path(tempfile.gettempdir(), f"quintain-copies-{os.getuid()}")
    directory.mkdir(mode=0o700, exist_ok=True)
    found = directory.lstat()
    if found.st_uid != os.getuid() or found.st_mode & 0o022 or directory.is_symlink():
        raise PermissionError(
            13, "is not a directory that only you can write to; move it away", str(directory)
        )
    return directory
