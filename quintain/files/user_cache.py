"""Directories below the user's cache directory, and contents kept there under keys."""

import hashlib
import logging
import os
import pathlib
import stat
from typing import Final

from quintain.files import atomic_write

NUM_KEPT: Final = 32
"""Contents kept in a directory; what was used longest ago is removed."""

_DIGEST_SIZE: Final = hashlib.sha256().digest_size

_logger = logging.getLogger(__name__)


class UnusableCacheError(Exception):
    """There is no directory that this user can write to and nobody else can."""


def find_directory(name: str) -> pathlib.Path:
    """Returns where a part of the cache is kept, whether it exists or not.

    Raises:
        UnusableCacheError: If there is no home directory.
    """
    given = os.environ.get("XDG_CACHE_HOME", "")
    if os.path.isabs(given):
        return pathlib.Path(given) / "quintain" / name
    home = os.path.expanduser("~")
    if not os.path.isabs(home):
        raise UnusableCacheError("there is no home directory, nor $XDG_CACHE_HOME")
    return pathlib.Path(home) / ".cache" / "quintain" / name


def open_directory(name: str) -> pathlib.Path:
    """Returns where a part of the cache is kept, and creates it.

    Raises:
        UnusableCacheError: If it can't be created or written, or is another user's.
    """
    path = find_directory(name)
    try:
        path.mkdir(parents=True, exist_ok=True, mode=0o700)
        state = path.stat()
    except OSError as error:
        raise UnusableCacheError(f"{path}: {error.strerror}") from error
    if state.st_uid != os.geteuid():
        raise UnusableCacheError(f"{path} belongs to another user")
    if state.st_mode & stat.S_IWOTH:
        raise UnusableCacheError(f"{path} can be written by everybody")
    if not os.access(path, os.W_OK | os.X_OK):
        raise UnusableCacheError(f"{path} can't be written")
    return path


def load(name: str, key: str) -> bytes | None:
    """Returns the content of a key; None if there is none, or it is damaged."""
    try:
        path = open_directory(name) / key
        stored = path.read_bytes()
        path.touch()
    except (UnusableCacheError, OSError):
        return None
    digest, content = stored[:_DIGEST_SIZE], stored[_DIGEST_SIZE:]
    return content if digest == hashlib.sha256(content).digest() else None


def save(name: str, key: str, content: bytes) -> None:
    """Keeps a content, where that is possible."""
    try:
        path = open_directory(name) / key
        stored = hashlib.sha256(content).digest() + content
        atomic_write.write_atomically(path, stored, has_rivals=True)
        kept = sorted(path.parent.iterdir(), key=lambda one: one.stat().st_mtime)
        for old in kept[:-NUM_KEPT]:
            old.unlink()
    except (UnusableCacheError, OSError) as error:
        _logger.info("%s/%s is not kept for the next run: %s.", name, key, error)
