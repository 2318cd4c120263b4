"""Code that users of other machines send for an experiment: a `.tar` file, named by its SHA-256.

It is sent as all files are (`transfer.pieces`): who asks how much is there goes on from that, so
that a connection that broke costs nothing, and the same code for many experiments is sent once.
What nobody writes or uses goes after a while, and when the next master starts.
"""

import contextlib
import hashlib
import itertools
import os
import pathlib
import posixpath
import re
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
"""Most bytes of all that was sent."""

_UNUSED_SECS: Final = 24 * 3600.0
_USED_SECS: Final = 600.0
_NAME: Final = re.compile("[0-9a-f]{64}")
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
        self._pieces = pieces.Pieces()
        self._lock = threading.Lock()
        self._ends_secs: dict[str, float] = {}

    def count(self, name: str) -> int:
        """Returns how many bytes of a file are there; 0 if nothing is.

        Args:
            name: SHA-256 of the file, as hexadecimal digits.

        Raises:
            ConfigError: If that is no such name.
        """
        path = self._find(name)
        with self._lock:
            self._forget_old()
            return self._measure(path)

    @contextlib.contextmanager
    def write(self, name: str, offset: int) -> Iterator[pieces.Piece]:
        """Gives what writes a piece of a file; see `pieces.Pieces.begin`.

        Raises:
            ConfigError: If there is too much, or it is no name as `count` takes it.
        """
        path = self._find(name)
        with self._lock:
            self._forget_old()
            others = sum(self._measure(self._find(one)) for one in self._ends_secs if one != name)
            if others >= MAX_BYTES:
                raise errors.ConfigError(
                    f"upload: more than {MAX_BYTES:,} bytes of code wait to be used; try again "
                    "later."
                )
            self._ends_secs[name] = self._clock() + _UNUSED_SECS
        with self._pieces.begin(path, offset, MAX_BYTES - others) as piece:
            yield piece

    @contextlib.contextmanager
    def unpacking(
        self, name: str, limits: experiment_sections.CodeConfig | None = None
    ) -> Iterator[pathlib.Path]:
        """Gives the directory that was sent.

        Args:
            name: As `count` takes it.
            limits: How much it may be; those of a config that says nothing if None.

        Raises:
            ConfigError: If it is no such archive, or holds what may not be in it. Nothing of it
                is written then.
            NotFoundError: If it is not there in full.
        """
        with self._opening(name) as file, model_files.staging(self._home) as out:
            target = out / model_files.NAME
            target.mkdir()
            with _explaining_archive(), tarfile.open(fileobj=file, mode="r:") as archive:
                _unpack(archive, target, limits or experiment_sections.CodeConfig())
            yield target
        with self._lock:
            self._ends_secs[name] = self._clock() + _USED_SECS

    @contextlib.contextmanager
    def _opening(self, name: str) -> Iterator[IO[bytes]]:
        with contextlib.ExitStack() as opened:
            file = None
            with changing_files.missing_files_skipped():
                file = opened.enter_context(self._find(name).open("rb"))
            if file is None or hashlib.file_digest(file, "sha256").hexdigest() != name:
                self._forget(name)
                raise errors.NotFoundError(
                    f"There is no upload {name}, or not all of it; send it again."
                )
            file.seek(0)
            yield file

    def _forget_old(self) -> None:
        now = self._clock()
        for name in [name for name, secs in self._ends_secs.items() if secs < now]:
            self._forget(name)

    def _forget(self, name: str) -> None:
        self._find(name).unlink(missing_ok=True)
        self._ends_secs.pop(name, None)

    def _measure(self, path: pathlib.Path) -> int:
        found = changing_files.find(path)
        return 0 if found is None else found.st_size

    def _find(self, name: str) -> pathlib.Path:
        if not _NAME.fullmatch(name):
            raise errors.ConfigError(f"upload: got {errors.show(name)}, expected a SHA-256.")
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
