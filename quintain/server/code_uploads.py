"""Code that users of other machines send for an experiment: a `.tar` file, in pieces.

A piece may come twice, so that a connection that broke costs nothing. What was begun and not used
is deleted after a day, and when the next master starts.
"""

import base64
import binascii
import contextlib
import os
import pathlib
import secrets
import tarfile
import threading
import time
from collections.abc import Callable, Iterator
from typing import IO, Final

from quintain import changing_files, errors
from quintain.scheduler import model_files, pieces

MAX_BYTES: Final = 4 * 2**30
"""Most bytes of all that was sent and not used."""

_MAX_AGE_SECS: Final = 24 * 3600.0
_PIECE_BYTES: Final = 2**20


class CodeUploads:
    """What was sent to a master, until it is used.

    Args:
        home: The home directory of the master.
        clock: Gives the seconds by which what was begun gets old.
    """

    def __init__(self, home: pathlib.Path, clock: Callable[[], float] = time.monotonic) -> None:
        self._home = home
        self._clock = clock
        # Nothing in it has to be left out by what ignore files say, and a new master empties it.
        self._directory = model_files.find_staging(home)
        self._lock = threading.Lock()
        self._written_secs: dict[str, float] = {}

    def begin(self) -> str:
        """Returns the name of a new one."""
        with self._lock:
            for old in self._list_old():
                self._forget(old)
            name = f"upload-{secrets.token_hex(16)}"
            with pieces.explaining(self._directory):
                self._directory.mkdir(parents=True, exist_ok=True)
                self._find(name).touch(mode=0o600)
            self._written_secs[name] = self._clock()
        return name

    def write(self, name: str, offset: int, data: str) -> int:
        """Adds a piece, and returns how many bytes there are.

        Args:
            name: What `begin` gave.
            offset: Bytes before the piece.
            data: The piece, as base64.

        Raises:
            ConfigError: If it does not follow what is there, or there is too much.
            NotFoundError: If nobody has begun it, or it was used.
            CheckpointError: If it can't be written.
        """
        try:
            piece = base64.b64decode(data, validate=True)
        except (binascii.Error, ValueError) as error:
            raise errors.ConfigError(f"data: is no base64 ({error}).") from error
        with self._lock, self._opening(name) as file:
            size = file.seek(0, os.SEEK_END)
            if not 0 <= offset <= size:
                raise errors.ConfigError(f"offset: got {offset}, but {size} bytes are there.")
            found = [changing_files.find(self._find(each)) for each in self._written_secs]
            held = sum(each.st_size for each in found if each is not None)
            if held + len(piece) > MAX_BYTES:
                raise errors.ConfigError(
                    f"data: more than {MAX_BYTES:,} bytes of code wait to be used; try again later."
                )
            with pieces.explaining(self._find(name)):
                file.seek(offset)
                rest = memoryview(piece)
                while rest:
                    rest = rest[file.write(rest) :]
            self._written_secs[name] = self._clock()
            return file.seek(0, os.SEEK_END)

    @contextlib.contextmanager
    def unpacking(self, name: str) -> Iterator[pathlib.Path]:
        """Gives the directory that was sent, and forgets it then.

        Raises:
            ConfigError: If it is no such archive, or holds what may not be in it.
            NotFoundError: If nobody has begun it, or it was used.
        """
        with self._opening(name) as file, model_files.staging(self._home) as out:
            target = out / model_files.NAME
            target.mkdir()
            try:
                with tarfile.open(fileobj=file, mode="r:") as archive:
                    _unpack(archive, target)
            except tarfile.TarError as error:
                raise errors.ConfigError(f"upload: is no complete archive ({error}).") from error
            yield target
        with self._lock:
            self._forget(name)

    @contextlib.contextmanager
    def _opening(self, name: str) -> Iterator[IO[bytes]]:
        file = None
        if name in self._written_secs:
            with changing_files.leaving_out():
                file = self._find(name).open("r+b", buffering=0)
        if file is None:
            raise errors.NotFoundError(
                f"There is no upload {name[:100]!r}; it was used, or the master was started anew."
            )
        with file:
            yield file

    def _list_old(self) -> list[str]:
        now = self._clock()
        return [name for name, secs in self._written_secs.items() if now - secs > _MAX_AGE_SECS]

    def _forget(self, name: str) -> None:
        self._find(name).unlink(missing_ok=True)
        self._written_secs.pop(name, None)

    def _find(self, name: str) -> pathlib.Path:
        return self._directory / f"{name}.tar"


def _unpack(archive: tarfile.TarFile, target: pathlib.Path) -> None:
    """Unpacks plain files, and then links, so that nothing is written through one.

    Raises:
        ConfigError: If a name leads elsewhere, comes twice, or is of something else.
    """
    links: dict[pathlib.Path, str] = {}
    for member in archive:
        parts = member.name.split("/")
        path = target.joinpath(*parts)
        found = archive.extractfile(member) if member.isfile() else None
        if any(part in ("", ".", "..") for part in parts) or path in links:
            raise _refuse(member, "leads elsewhere, or comes twice")
        if member.issym():
            links[path] = member.linkname
        elif found is None:
            raise _refuse(member, "is no plain file")
        else:
            try:
                _write(found, path)
            except (OSError, ValueError) as error:
                raise _refuse(member, f"can't be written ({error})") from error
            path.chmod(0o700 if member.mode & 0o100 else 0o600)
            os.utime(path, (member.mtime, member.mtime))
    for path, link in links.items():
        inner = path.relative_to(target).as_posix()[:200]
        if not links.keys().isdisjoint(path.parents):
            raise errors.ConfigError(f"upload: holds {inner!r}, which lies below a link.")
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.symlink_to(link)
        except (OSError, ValueError) as error:
            raise errors.ConfigError(f"upload: {inner!r} can't be written ({error}).") from error


def _write(found: IO[bytes], path: pathlib.Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with found, path.open("xb") as file:
        while piece := found.read(_PIECE_BYTES):
            file.write(piece)


def _refuse(member: tarfile.TarInfo, reason: str) -> errors.ConfigError:
    return errors.ConfigError(f"upload: holds {member.name[:200]!r}, which {reason}.")
