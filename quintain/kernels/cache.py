"""Where compiled kernels are kept: below the user's cache directory, one for each way to build.

Processes that need the same file wait for the one that builds it; a process that is killed leaves
nothing that anybody would load.
"""

import contextlib
import fcntl
import logging
import os
import pathlib
import shutil
import stat
import tempfile
from collections.abc import Callable, Iterator

from quintain.kernels import sealed_files

_logger = logging.getLogger(__name__)


class UnusableCacheError(Exception):
    """There is no directory that this user can write to and nobody else can."""


def find_directory() -> pathlib.Path:
    """Returns where kernels are kept, whether it exists or not.

    Raises:
        UnusableCacheError: If there is no home directory.
    """
    given = os.environ.get("XDG_CACHE_HOME", "")
    if os.path.isabs(given):
        return pathlib.Path(given) / "quintain" / "kernels"
    home = os.path.expanduser("~")
    if not os.path.isabs(home):
        raise UnusableCacheError("there is no home directory, nor $XDG_CACHE_HOME")
    return pathlib.Path(home) / ".cache" / "quintain" / "kernels"


def open_directory() -> pathlib.Path:
    """Returns where kernels are kept, and creates it.

    Raises:
        UnusableCacheError: If it can't be created or written, or is another user's.
    """
    path = find_directory()
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


def load_or_build(
    key: str, build: Callable[[pathlib.Path], bytes], load: Callable[[pathlib.Path], None]
) -> None:
    """Loads the kernels of a key, which are built before if there are none.

    Args:
        key: Names all that the result depends on.
        build: Builds them in a directory of its own; returns the content of the library.
        load: Loads a file. Where nothing can be kept, the file is gone when it returns.

    Raises:
        OSError: If not even a temporary file can be written.
    """
    try:
        path = open_directory() / f"{key}.so"
        if not _is_there(path):
            _build_once(path, build)
    except (UnusableCacheError, OSError) as error:
        _logger.warning("Native kernels are not kept for the next start: %s.", error)
    else:
        load(path)
        return
    with tempfile.TemporaryDirectory(prefix="quintain-kernels-") as directory:
        path = pathlib.Path(directory) / f"{key}.so"
        sealed_files.write(path, build(pathlib.Path(directory)))
        load(path)


def _is_there(path: pathlib.Path) -> bool:
    """Returns whether there is a file that may be loaded."""
    try:
        fault = sealed_files.find_fault(path)
    except FileNotFoundError:
        return False
    if fault is not None:
        _logger.warning("%s: native kernels are compiled anew.", fault)
    return fault is None


def _build_once(path: pathlib.Path, build: Callable[[pathlib.Path], bytes]) -> None:
    with _locked(path.with_suffix(".lock")):
        if _is_there(path):
            return  # Another process has built it meanwhile.
        directory = path.with_suffix(".building")
        shutil.rmtree(directory, ignore_errors=True)  # What a killed process left.
        directory.mkdir(mode=0o700)
        try:
            sealed_files.write(path, build(directory))
        finally:
            shutil.rmtree(directory, ignore_errors=True)


@contextlib.contextmanager
def _locked(path: pathlib.Path) -> Iterator[None]:
    """Keeps other processes waiting. The lock ends with the process that holds it."""
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
