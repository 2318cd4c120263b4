"""Checkpoint storage in a directory, on this machine or on a shared file system.

<uuid>/metadata.json      the manifest
       ...                what the trial writes
.<launch>.tmp/            what a process writes now; it gets its name when it is on the disk
"""

import contextlib
import pathlib
import shutil
import stat
from collections.abc import Iterator, Mapping
from typing import BinaryIO

from typing_extensions import override

from quintain import errors
from quintain.files import atomic_write, changing_files
from quintain.records import checkpoint_manifest
from quintain.storage import checkpoint_storage, retries


class DirectoryStorage(checkpoint_storage.CheckpointStorage):
    """Keeps each checkpoint in a directory of its own.

    Args:
        root: Where they lie.
        writer: Who writes there.

    Example:
        >>> import tempfile
        >>> root = pathlib.Path(tempfile.mkdtemp())
        >>> storage = DirectoryStorage(root)
        >>> storage.stage("a0").name
        '.a0.tmp'
    """

    def __init__(
        self,
        root: pathlib.Path,
        writer: checkpoint_storage.Writer = checkpoint_storage.Writer(),  # noqa: B008 - frozen
    ) -> None:
        self._root = root
        self._writer = writer

    @property
    @override
    def place(self) -> str:
        return str(self._root)

    @property
    @override
    def address(self) -> str:
        return str(self._root)

    @override
    def check(self) -> None:
        """Does nothing: the first checkpoint makes the directory."""

    @override
    def stage(self, name: str) -> pathlib.Path:
        directory = self._root / checkpoint_manifest.unfinished_name(self._writer.launch_id or name)
        with self._errors_explained():
            if self._writer.is_expected:
                checkpoint_manifest.require_storage(self._root)
            if directory.exists():
                shutil.rmtree(directory)
            directory.mkdir(parents=True)
        return directory

    @override
    def commit(self, directory: pathlib.Path, name: str) -> None:
        try:
            with self._errors_explained():
                atomic_write.sync_tree(directory)
                directory.rename(self._root / name)
                atomic_write.sync(self._root)
        except errors.CheckpointError:
            self.discard(directory, name)
            raise

    @override
    def discard(self, directory: pathlib.Path, name: str) -> None:
        shutil.rmtree(directory, ignore_errors=True)

    @override
    def fetch(
        self, name: str, directory: pathlib.Path, sizes: Mapping[str, int] | None = None
    ) -> pathlib.Path:
        damage = self.find_damage(name, sizes or {})
        if damage is not None:
            raise self.build_damaged(name, damage)
        return self._root / name

    @override
    def list(self) -> list[checkpoint_storage.StoredEntry]:
        with self._errors_explained("can't be read"):
            found = []
            for path in changing_files.list_directory(self._root):
                # A process may give it another name at any moment.
                with changing_files.missing_files_skipped():
                    if stat.S_ISDIR(path.lstat().st_mode):
                        found.append(_describe(path))
            return found

    @override
    def find_files(self, name: str) -> dict[str, int]:
        """Returns them without links that lead out of the directory."""
        directory = self._root / name
        inside = directory.resolve()
        with self._errors_explained("can't be read"):
            return {
                path: found.st_size
                for path, found in changing_files.walk(directory).items()
                if stat.S_ISREG(found.st_mode)
                and (directory / path).resolve().is_relative_to(inside)
            }

    @override
    def open(self, name: str, path: str) -> BinaryIO:
        directory = (self._root / name).resolve()
        found = (directory / path).resolve()
        if not found.is_relative_to(directory) or not found.is_file():
            raise errors.NotFoundError(f"file {path[:200]!r}: there is none of this name.")
        with self._errors_explained("can't be read"):
            try:
                return found.open("rb")
            except FileNotFoundError as error:
                raise errors.NotFoundError(f"file {path[:200]!r}: it was just deleted.") from error

    @override
    def find_damage(self, name: str, sizes: Mapping[str, int]) -> str | None:
        return checkpoint_manifest.find_damage(self._root / name, sizes)

    @override
    def read_manifest(self, name: str) -> checkpoint_manifest.Manifest:
        return checkpoint_manifest.read(self._root / name)

    @override
    def delete(self, name: str) -> None:
        path = self._root / name
        with self._errors_explained("can't be deleted"):
            if not path.is_dir():
                return
            for entry in changing_files.list_directory(path):
                if entry.name != checkpoint_manifest.FILE_NAME:
                    changing_files.remove(entry)
            (path / checkpoint_manifest.FILE_NAME).unlink(missing_ok=True)
            with changing_files.missing_files_skipped():
                path.rmdir()

    @override
    def may_have(self, name: str) -> bool:
        return (self._root / name).is_dir()

    @override
    def delete_unfinished(self, directory_name: str, home_id: str) -> None:
        self.delete(directory_name)

    @override
    def find_writer(self, name: str) -> str | None:
        return None

    @contextlib.contextmanager
    def _errors_explained(self, what: str = "a checkpoint could not be written") -> Iterator[None]:
        try:
            yield
        except OSError as error:
            kind = retries.find_kind(error)
            raise kind(f"{self._root}: {what}: {error}.") from error


def _describe(path: pathlib.Path) -> checkpoint_storage.StoredEntry:
    size = changing_files.measure_all(path)
    has_manifest = (path / checkpoint_manifest.FILE_NAME).is_file()
    return checkpoint_storage.StoredEntry(path.name, size, path.stat().st_mtime, has_manifest)
