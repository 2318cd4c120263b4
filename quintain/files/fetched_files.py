"""Local copies of files that TensorFlow can't reach, one for each URL."""

import contextlib
import errno
import hashlib
import logging
import os
import pathlib
import shutil
import tempfile
import uuid
from typing import Any, Final

from quintain.files import file_paths

_MARK: Final = ".version"

logger = logging.getLogger(__name__)


def copy(system: Any, path: str) -> str:
    """Returns the path of an up-to-date local copy.

    Args:
        system: The file system of fsspec that has it.
        path: URL of a file, of a directory, or of the beginning of files' names before a `.`, as
            the prefix of a checkpoint is; of these a prefix of the copies is returned.

    Raises:
        OSError: If there is nothing, or the copy can't be written.
    """
    path = file_paths.normal(path)
    place = private_directory("copies") / hashlib.sha256(path.encode()).hexdigest()[:32]
    target = place / (file_paths.basename(path) or "root")
    sources = _list_sources(system, path)
    version = _version(system, sources)
    mark = place / _MARK
    with contextlib.suppress(FileNotFoundError):
        if mark.read_text(encoding="utf-8") == version:
            return str(target)
    scratch = place.with_name(f"{place.name}.{uuid.uuid4().hex}")
    scratch.mkdir()
    try:
        for source in sources:
            name = source.rstrip("/").rpartition("/")[2]
            system.get(source, str(scratch / name), recursive=system.isdir(source))
        (scratch / _MARK).write_text(version, encoding="utf-8")
        shutil.rmtree(place, ignore_errors=True)
        with contextlib.suppress(OSError):  # Another process has just made the same.
            scratch.rename(place)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    logger.info("%s: copied to %s, because TensorFlow can't read it where it is.", path, target)
    return str(target)


def _list_sources(system: Any, path: str) -> list[str]:
    """Returns the paths, without their scheme, of what is to be copied."""
    own = str(system._strip_protocol(path))
    if system.exists(path):
        return [own]
    found = system.ls(file_paths.dirname(path), detail=False)
    sources = [name for name in found if name.startswith(f"{own}.")]
    if not sources:
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
    return sorted(sources)


def _version(system: Any, sources: list[str]) -> str:
    """Returns text that changes when a file is written anew."""
    files = [
        name
        for source in sources
        for name in (sorted(system.find(source)) if system.isdir(source) else [source])
    ]
    keys = "\n".join(f"{name} {system.ukey(name)}" for name in files)
    return hashlib.sha256(keys.encode()).hexdigest()


def private_directory(kind: str) -> pathlib.Path:
    """Returns a directory for temporary files of this user, which nobody else may write to."""
    directory = pathlib.Path(tempfile.gettempdir(), f"quintain-{kind}-{os.getuid()}")
    directory.mkdir(mode=0o700, exist_ok=True)
    found = directory.lstat()
    if found.st_uid != os.getuid() or found.st_mode & 0o022 or directory.is_symlink():
        raise PermissionError(
            13, "is not a directory that only you can write to; move it away", str(directory)
        )
    return directory
