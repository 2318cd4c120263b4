"""Directories below the user's cache directory."""

import os
import pathlib
import stat


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
