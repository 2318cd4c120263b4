"""Cache of compiled kernels below the user's cache directory, keyed by how they are built.

Processes that need the same file wait for the one that builds it; a process that is killed leaves
nothing that anybody would load.
"""

import contextlib
import errno
import fcntl
import logging
import os
import pathlib
import shutil
import tempfile
from collections.abc import Callable, Iterator
from typing import Final

import tensorflow as tf

from quintain.files import user_cache
from quintain.kernels import sealed_files

ROOM_BYTES: Final = 64 * 2**20
"""Free on the disk before anything is compiled there."""

_logger = logging.getLogger(__name__)


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
    kept: bytes | None = None
    try:
        path = user_cache.open_directory("kernels") / f"{key}.so"
        if _find_lack(path) is not None:
            _build_once(path, build)
        kept = path.read_bytes()
        load(path)
    except (user_cache.UnusableCacheError, OSError, tf.errors.OpError) as error:
        reason = " ".join(str(error).split())
    else:
        return
    # Below a directory that forbids it, no library can be loaded, but it can be from elsewhere.
    action = "are not kept for the next start" if kept is None else "are loaded from another place"
    _logger.warning("Native kernels %s: %s.", action, reason)
    with tempfile.TemporaryDirectory(prefix="quintain-kernels-") as directory:
        path = pathlib.Path(directory) / f"{key}.so"
        if kept is None:
            sealed_files.write(path, build(pathlib.Path(directory)))
        else:
            path.write_bytes(kept)
        load(path)


def _find_lack(path: pathlib.Path) -> str | None:
    """Returns why a file can't be loaded: an empty text if there is none; None if it can be."""
    try:
        return sealed_files.find_fault(path)
    except FileNotFoundError:
        return ""


def _build_once(path: pathlib.Path, build: Callable[[pathlib.Path], bytes]) -> None:
    with _locked(path.with_suffix(".lock")):
        lack = _find_lack(path)
        if lack is None:
            return  # Another process has built it meanwhile.
        if lack:
            _logger.warning("%s: native kernels are compiled anew.", lack)
        directory = path.with_suffix(".building")
        shutil.rmtree(directory, ignore_errors=True)  # What a killed process left.
        directory.mkdir(mode=0o700)
        try:
            _reserve(directory / "room")
            sealed_files.write(path, build(directory))
        finally:
            shutil.rmtree(directory, ignore_errors=True)


def _reserve(path: pathlib.Path) -> None:
    """Makes sure that there is room to compile, within the disk and the user's share of it."""
    try:
        with path.open("wb") as file:
            os.posix_fallocate(file.fileno(), 0, ROOM_BYTES)
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
            raise user_cache.UnusableCacheError(
                f"{path.parent.parent}: {error.strerror}"
            ) from error
    path.unlink(missing_ok=True)


@contextlib.contextmanager
def _locked(path: pathlib.Path) -> Iterator[None]:
    """Keeps other processes waiting. The lock ends with the process that holds it."""
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
