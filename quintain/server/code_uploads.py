"""Code that users of other machines send for an experiment: a `.tar` file, in pieces.

A piece may come twice, so that a connection that broke costs nothing. What was begun and not used
is deleted after a day, and when the next master starts.
"""

import base64
import binascii
import contextlib
import itertools
import os
import pathlib
import posixpath
import secrets
import shutil
import tarfile
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from typing import IO, Final

from quintain import errors
from quintain.files import changing_files
from quintain.master.transfer import model_files, pieces
from quintain.records.config import experiment_sections

MAX_BYTES: Final = 4 * 2**30
"""Most bytes of all that was sent and not used."""

_MAX_AGE_SECS: Final = 24 * 3600.0
_PIECE_BYTES: Final = 2**20

_MOST_SECS: Final = 2.0**40
"""Largest time of a file; every file system keeps one that is earlier, or the latest it can."""


class CodeUploads:
    """Uploaded code of a master, kept until it is used.

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
    def unpacking(
        self, name: str, limits: experiment_sections.CodeConfig | None = None
    ) -> Iterator[pathlib.Path]:
        """Gives the directory that was sent, and forgets it then.

        Args:
            name: What `begin` gave.
            limits: How much it may be; those of a config that says nothing if None.

        Raises:
            ConfigError: If it is no such archive, or holds what may not be in it. Nothing of it
                is written then.
            NotFoundError: If nobody has begun it, or it was used.
        """
        with self._opening(name) as file, model_files.staging(self._home) as out:
            target = out / model_files.NAME
            target.mkdir()
            with _explaining_archive(), tarfile.open(fileobj=file, mode="r:") as archive:
                _unpack(archive, target, limits or experiment_sections.CodeConfig())
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


def _unpack(
    archive: tarfile.TarFile, target: pathlib.Path, limits: experiment_sections.CodeConfig
) -> None:
    """Unpacks plain files, and then links, so that nothing is written through one.

    Raises:
        ConfigError: If a name leads elsewhere, comes twice, or is of something else, or there is
            too much.
    """
    members = _read_members(archive, limits.max_files)
    folders = _check_members(members, limits)
    for member in sorted(members, key=tarfile.TarInfo.issym):
        try:
            if (folder := posixpath.dirname(member.name)) in folders:
                folders.remove(folder)
                os.makedirs(target / folder, exist_ok=True)
            _write(archive, member, os.path.join(target, member.name))
        except (OSError, ValueError) as error:
            raise _refuse(member, f"can't be written ({error})") from error


def _read_members(archive: tarfile.TarFile, most: int) -> list[tarfile.TarInfo]:
    """Returns all headers of an archive.

    Raises:
        ConfigError: If there are too many.
    """
    members = list(itertools.islice(archive, most + 1))
    if len(members) > most:
        raise _too_many(most)
    return members


def _check_members(
    members: Iterable[tarfile.TarInfo], limits: experiment_sections.CodeConfig
) -> set[str]:
    """Checks all headers of an archive, and returns the directories that its files lie in.

    Raises:
        ConfigError: If a member can't be unpacked, or all of them are too much.
    """
    folders: set[str] = {""}
    names: set[str] = set()
    num_bytes = 0
    for member in members:
        parts = member.name.split("/")
        above = ["/".join(parts[:end]) for end in range(1, min(len(parts), model_files.MAX_DEPTH))]
        if not {"", ".", ".."}.isdisjoint(parts) or "\0" in member.name:
            raise _refuse(member, "leads elsewhere")
        if len(parts) > model_files.MAX_DEPTH:
            raise _refuse(member, f"is more than {model_files.MAX_DEPTH} levels deep")
        if member.name in names or member.name in folders or not names.isdisjoint(above):
            raise _refuse(member, "comes twice, or lies below a file or a link")
        if member.issparse():
            raise _refuse(member, "is a sparse file; send it without holes")
        if not (member.isreg() or member.issym()):
            raise _refuse(member, "is no plain file")
        if member.size < 0 or not abs(member.mtime) < _MOST_SECS:
            raise _refuse(member, f"has no valid size or time ({member.size}, {member.mtime})")
        names.add(member.name)
        folders.update(above)
        num_bytes += member.size
        if num_bytes > limits.max_mib * 2**20:
            raise errors.ConfigError(
                f"upload: holds more than {limits.max_mib} MiB (code.max_mib); leave out what is "
                "not needed, or raise the limit."
            )
        if len(names) + len(folders) - 1 > limits.max_files:
            raise _too_many(limits.max_files)
    return folders


def _write(archive: tarfile.TarFile, member: tarfile.TarInfo, path: str) -> None:
    if member.issym():
        os.symlink(member.linkname, path)
        return
    found = archive.extractfile(member)
    assert found is not None  # It is a plain file.
    with found, open(path, "xb") as file:
        shutil.copyfileobj(found, file, _PIECE_BYTES)
        os.fchmod(file.fileno(), 0o700 if member.mode & 0o100 else 0o600)
    os.utime(path, (member.mtime, member.mtime))


def _refuse(member: tarfile.TarInfo, reason: str) -> errors.ConfigError:
    return errors.ConfigError(f"upload: holds {member.name[:200]!r}, which {reason}.")


def _too_many(most: int) -> errors.ConfigError:
    return errors.ConfigError(
        f"upload: holds more than {most} files and directories (code.max_files); leave out what "
        "is not needed, or raise the limit."
    )


@contextlib.contextmanager
def _explaining_archive() -> Iterator[None]:
    """Turns what `tarfile` raises for malformed headers into an error of the request."""
    try:
        yield
    except errors.ConfigError:
        raise
    except (tarfile.TarError, ArithmeticError, EOFError, RecursionError, ValueError) as error:
        raise errors.ConfigError(f"upload: is no complete archive ({error}).") from error
