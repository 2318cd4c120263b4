"""Cache of a machine for code and checkpoints, shared by its processes.

<cache>/KIND/NAME/          what is complete; it never changes
        incoming/KIND-NAME/ what is being fetched, or what a killed process had of it
        locks/KIND-NAME     held alone by who deletes it, together by those who use it
        locks/incoming-...  held alone by who fetches it, or deletes what was fetched of it

Locks are the system's, so that a process that is killed holds none. What nobody uses goes when
there is no room for something new, what was used longest ago first.
"""

import contextlib
import fcntl
import logging
import os
import pathlib
import shutil
import stat
import uuid
from collections.abc import Callable, Iterator
from typing import IO, Final

from quintain import errors
from quintain.files import atomic_write, changing_files, disk_errors
from quintain.records import checkpoint_manifest

logger = logging.getLogger(__name__)

DEFAULT_LIMIT_BYTES: Final = 20 * 2**30
"""Size of a cache whose limit nobody set."""

_KINDS: Final = ("code", "checkpoints")
"""What is kept. Others may have files of their own in the directory."""

_INCOMING: Final = "incoming"
_LOCKS: Final = "locks"
_TRASH: Final = "trash"

Fill = Callable[[pathlib.Path], None]
"""Writes everything into a directory that is there; it may have a part of it."""


class NodeCache:
    """The cache of one machine, for one user. What one process holds stays until it lets go."""

    def __init__(self, path: pathlib.Path, limit_bytes: int = DEFAULT_LIMIT_BYTES) -> None:
        self._path = path
        self._limit_bytes = limit_bytes
        self._held: dict[tuple[str, str], IO[bytes]] = {}

    def hold(self, kind: str, name: str, num_bytes: int, fill: Fill) -> pathlib.Path:
        """Returns a directory of the cache; fetches it if it is not there.

        Other processes that want the same wait meanwhile. It stays until `release`, or the end of
        this process.

        Args:
            kind: What it is: `code` or `checkpoints`.
            name: Its name; whoever fetches something of this name gets the same.
            num_bytes: Its size.
            fill: Fetches it. If it raises, what it had is there for the next one.

        Raises:
            NoRoomError: If there is no room for it now.
            CheckpointError: If it is larger than the cache may be.
            ConfigError: If the directory of the cache can't be used.
        """
        self._open()
        target = self._path / kind / name
        while (kind, name) not in self._held:
            lock = self._take(kind, name, fcntl.LOCK_SH)
            if target.is_dir():
                self._held[kind, name] = lock
                os.utime(target)
                break
            lock.close()
            # A lock of its own: others may hold what is fetched by now, for as long as they run.
            # Before it is held here, somebody may delete it again.
            with self._lock(_INCOMING, f"{kind}-{name}", fcntl.LOCK_EX) as lock:
                try:
                    if not target.is_dir():
                        self._fetch(kind, name, num_bytes, fill)
                finally:
                    os.unlink(lock.name)
        return target

    def release(self, kind: str) -> None:
        """Lets go of all that is held of a kind."""
        for key in [key for key in self._held if key[0] == kind]:
            self._held.pop(key).close()

    def close(self) -> None:
        """Lets go of all that is held."""
        for lock in self._held.values():
            lock.close()
        self._held.clear()

    def _open(self) -> None:
        try:
            for name in ("", _INCOMING, _LOCKS, _TRASH):
                (self._path / name).mkdir(mode=0o700, parents=True, exist_ok=True)
            found = self._path.stat()
        except OSError as error:
            raise errors.ConfigError(
                f"QUINTAIN_CACHE: got {str(self._path)!r}, which can't be used ({error.strerror}); "
                "expected a directory that can be written to."
            ) from error
        if found.st_uid != os.geteuid() or stat.S_IMODE(found.st_mode) & 0o022:
            raise errors.ConfigError(
                f"QUINTAIN_CACHE: got {str(self._path)!r}, which belongs to user {found.st_uid} "
                f"and has mode {stat.S_IMODE(found.st_mode):04o}, so that others could change what "
                f"runs here; expected a directory of user {os.geteuid()} with mode 0700."
            )

    def _fetch(self, kind: str, name: str, num_bytes: int, fill: Fill) -> None:
        incoming = self._path / _INCOMING / f"{kind}-{name}"
        incoming.mkdir(exist_ok=True)
        self._make_room(incoming, num_bytes)
        try:
            fill(incoming)
            atomic_write.sync_tree(incoming)
            (self._path / kind).mkdir(exist_ok=True)
            incoming.rename(self._path / kind / name)
            atomic_write.sync(self._path / kind)
        except OSError as error:
            if disk_errors.is_full(error):
                raise self._say_full(num_bytes) from error
            raise errors.CheckpointError(
                f"{self._path}: {kind} {name} can't be kept: {error}."
            ) from error

    def _make_room(self, incoming: pathlib.Path, num_bytes: int) -> None:
        """Deletes what nobody uses, until something new has room."""
        with self._lock("", "room", fcntl.LOCK_EX):
            for path in changing_files.list_directory(self._path / _TRASH):
                _remove(path)
            missing = max(num_bytes - _measure(incoming), 0)
            sizes = {path: _measure(path) for path in self._list() if path != incoming}
            # What others fetch now is there in part only; their sizes are looked at again by them.
            for path in sorted(sizes, key=_find_time):
                if self._has_room(sum(sizes.values()) + num_bytes, missing):
                    return
                if self._delete(path):
                    logger.info("%s has made room in the cache.", path)
                    del sizes[path]
            if not self._has_room(sum(sizes.values()) + num_bytes, missing):
                raise self._say_full(num_bytes, sum(sizes.values()))

    def _has_room(self, total_bytes: int, missing_bytes: int) -> bool:
        free = shutil.disk_usage(self._path).free
        return total_bytes <= self._limit_bytes and missing_bytes <= free

    def _list(self) -> list[pathlib.Path]:
        kinds = [self._path / name for name in (*_KINDS, _INCOMING)]
        return [path for kind in kinds for path in changing_files.list_directory(kind)]

    def _delete(self, path: pathlib.Path) -> bool:
        """Deletes something that nobody uses; returns whether it is gone."""
        try:
            with self._lock(path.parent.name, path.name, fcntl.LOCK_EX | fcntl.LOCK_NB) as lock:
                gone = self._path / _TRASH / uuid.uuid4().hex
                with contextlib.suppress(FileNotFoundError):
                    path.rename(gone)
                _remove(gone)
                os.unlink(lock.name)
        except BlockingIOError:
            return False
        return True

    @contextlib.contextmanager
    def _lock(self, kind: str, name: str, how: int) -> Iterator[IO[bytes]]:
        lock = self._take(kind, name, how)
        try:
            yield lock
        finally:
            lock.close()

    def _take(self, kind: str, name: str, how: int) -> IO[bytes]:
        path = self._path / _LOCKS / f"{kind}-{name}"
        while True:
            lock = path.open("ab")
            try:
                fcntl.flock(lock, how)
                # Who deleted what it stands for has deleted the file as well.
                if os.path.samestat(os.stat(path), os.fstat(lock.fileno())):
                    return lock
            except FileNotFoundError:
                pass
            except BaseException:
                lock.close()
                raise
            lock.close()

    def _say_full(self, num_bytes: int, used_bytes: int | None = None) -> errors.CheckpointError:
        free = shutil.disk_usage(self._path).free
        others = "" if used_bytes is None else f" Trials that run use {_show(used_bytes)} of it."
        # What is larger than the limit never has room.
        kind = errors.CheckpointError if num_bytes > self._limit_bytes else errors.NoRoomError
        return kind(
            f"{self._path}: there is no room in the cache of this machine for {_show(num_bytes)}: "
            f"its limit is {_show(self._limit_bytes)}, and {_show(free)} of the disk are free."
            f"{others} Free some space, or start the agent with a larger --cache-limit or another "
            "--cache."
        )


def _show(num_bytes: int) -> str:
    return f"{num_bytes / 2**20:.1f} MiB"


def _measure(path: pathlib.Path) -> int:
    return sum(checkpoint_manifest.list_files(path).values())


def _find_time(path: pathlib.Path) -> float:
    found = changing_files.find(path)
    return 0.0 if found is None else found.st_mtime


def _remove(path: pathlib.Path) -> None:
    if path.is_dir() and not path.is_symlink():
        # A trial's code may have taken permissions from its own files.
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)
