"""Resumable transfer of files in pieces.

A piece is written at its place as it comes in, so that what has arrived before a connection broke
need not be sent again. Whoever begins to write a file takes it over: what is still on its way over
a connection that its sender has given up is not written any more.
"""

import contextlib
import os
import pathlib
import threading
from collections.abc import Iterator

from quintain import errors
from quintain.files import changing_files, disk_errors
from quintain.store import database_errors


class Piece:
    """Part of a file that one request writes; a context manager. Made by `Pieces.begin`."""

    def __init__(self, path: pathlib.Path, descriptor: int, offset: int, most_bytes: int) -> None:
        self._path = path
        self._descriptor = descriptor
        self._most_bytes = most_bytes
        self._lock = threading.Lock()
        self._is_wanted = True
        self.offset = offset

    def write(self, data: bytes) -> None:
        """Writes what comes next.

        Raises:
            ConfigError: If that is more than the file may have.
            StateError: If somebody else has begun to write the file, or it is not wanted any more.
            CheckpointError: If it can't be written.
        """
        if self.offset + len(data) > self._most_bytes:
            raise errors.ConfigError(
                f"file {self._path.name}: got more than {self._most_bytes} bytes, its size."
            )
        with self._lock, explaining(self._path):
            if not self._is_wanted:
                raise errors.StateError(f"file {self._path.name}: another request writes it now.")
            rest = memoryview(data)
            while rest:
                count = os.pwrite(self._descriptor, rest, self.offset)
                self.offset += count
                rest = rest[count:]

    def give_up(self) -> None:
        """Lets nothing more be written."""
        with self._lock:
            self._is_wanted = False

    def __enter__(self) -> "Piece":
        return self

    def __exit__(self, *_: object) -> None:
        self.give_up()
        os.close(self._descriptor)


class Pieces:
    """Knows who writes which file. All methods may be called from several threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._pieces: dict[pathlib.Path, Piece] = {}

    @contextlib.contextmanager
    def begin(self, path: pathlib.Path, offset: int, most_bytes: int) -> Iterator[Piece]:
        """Gives what writes a piece of a file; the directories to it are made.

        Args:
            path: The file.
            offset: Where the piece begins; what the file has behind it goes.
            most_bytes: Largest size of the file.

        Raises:
            StateError: If the file ends before that; it has to be asked how much is there.
            CheckpointError: If it can't be written.
        """
        with self._lock, explaining(path):
            former = self._pieces.get(path)
            if former is not None:
                former.give_up()
            path.parent.mkdir(parents=True, exist_ok=True)
            descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW, 0o600)
            found = os.fstat(descriptor).st_size
            if not 0 <= offset <= found:
                os.close(descriptor)
                raise errors.StateError(
                    f"offset: got {offset}, but {found} bytes of {path.name} are there."
                )
            os.ftruncate(descriptor, offset)
            piece = self._pieces[path] = Piece(path, descriptor, offset, most_bytes)
        try:
            with piece:
                yield piece
        finally:
            with self._lock:
                if self._pieces.get(path) is piece:
                    del self._pieces[path]

    def stop(self, directory: pathlib.Path) -> None:
        """Lets nothing more be written below a directory by those who write now."""
        with self._lock:
            for path, piece in self._pieces.items():
                if path.is_relative_to(directory):
                    piece.give_up()


@contextlib.contextmanager
def explaining(path: pathlib.Path) -> Iterator[None]:
    """Turns errors of the system into ones that name the file, and say if the disk is full.

    Raises:
        NoRoomError: In place of an `OSError` of a full disk.
        StoreAwayError: In place of one of a disk that is lost; it may come back.
        CheckpointError: In place of another one.
        OSError: If a file of the master's is gone: a fault, of which who asks knows nothing.
    """
    try:
        yield
    except OSError as error:
        if changing_files.is_gone(error):
            raise
        lost = (
            database_errors.explain_disk(error, str(path)) if disk_errors.is_lost(error) else None
        )
        if lost is not None:
            raise lost from error
        text = f"{path}: can't be written on the machine of the master: {error.strerror}."
        if disk_errors.is_full(error):
            raise errors.NoRoomError(f"{text} Free some space there.") from error
        raise errors.CheckpointError(text) from error


def require_space(directory: pathlib.Path, num_bytes: int, kept_bytes: int) -> None:
    """Checks that files fit on the disk of a directory.

    Raises:
        NoRoomError: If they do not.
    """
    with explaining(directory):
        status = os.statvfs(directory)
    free = status.f_bavail * status.f_frsize
    if num_bytes + kept_bytes > free:
        raise errors.NoRoomError(
            f"{directory}: the disk of the master's machine is full: {free / 2**20:.0f} MiB are "
            f"free, {num_bytes / 2**20:.0f} MiB are to come, and {kept_bytes / 2**20:.0f} MiB stay "
            "free. Free some space there."
        )
