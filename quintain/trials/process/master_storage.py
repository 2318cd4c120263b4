"""Checkpoint storage through the master, for processes that do not see its directories."""

import contextlib
import pathlib
import shutil
from collections.abc import Iterator, Mapping

from typing_extensions import override

from quintain import errors
from quintain.client import file_calls
from quintain.files import disk_errors
from quintain.records import checkpoint_manifest
from quintain.storage import checkpoint_storage, retries

_ATTEMPTS = 2
"""A checkpoint that is not what it should be may have been changed on its way."""


class MasterStorage(checkpoint_storage.TrialStorage):
    """Sends checkpoints to the master, which keeps them in its directory, and gets them from it.

    A transfer that breaks off goes on where it was. The master checks what has arrived before it
    becomes a checkpoint, and this process what it gets.
    """

    def __init__(self, calls: file_calls.FileCalls, scratch_dir: pathlib.Path) -> None:
        self._calls = calls
        self._scratch_dir = scratch_dir

    @property
    @override
    def is_remote(self) -> bool:
        return True

    @override
    def stage(self, name: str) -> pathlib.Path:
        directory = self._scratch_dir / checkpoint_manifest.unfinished_name(name)
        with self._errors_explained():
            if directory.exists():
                shutil.rmtree(directory)
            directory.mkdir(parents=True)
        return directory

    @override
    def commit(self, directory: pathlib.Path, name: str) -> None:
        try:
            with self._errors_explained():
                found = checkpoint_manifest.list_files(directory)
                sizes = {path: size for path, size in found.items() if not path.endswith("/")}
                retries.outlast_full_disks(
                    lambda: self._calls.send_checkpoint(name, directory, sizes),
                    doing="sending a checkpoint to the master",
                )
        except errors.QuintainError:
            self.discard(directory, name)
            raise
        shutil.rmtree(directory, ignore_errors=True)

    @override
    def discard(self, directory: pathlib.Path, name: str) -> None:
        shutil.rmtree(directory, ignore_errors=True)
        if not self._calls.is_lost:
            with contextlib.suppress(errors.QuintainError):
                self._calls.discard_checkpoint(name)

    @override
    def fetch(
        self, name: str, directory: pathlib.Path, sizes: Mapping[str, int] | None = None
    ) -> pathlib.Path:
        damage: str | None = None
        for _ in range(_ATTEMPTS):
            with self._errors_explained("can't be written"):
                damage = self._fetch(name, directory, sizes or {})
                if damage is None:
                    return directory
                shutil.rmtree(directory)
        raise errors.DamagedCheckpointError(f"checkpoint {name}: {damage}.", str(damage))

    def _fetch(self, name: str, directory: pathlib.Path, sizes: Mapping[str, int]) -> str | None:
        """Fetches all files; returns what is wrong with them."""
        directory.mkdir(parents=True, exist_ok=True)
        try:
            listing = self._calls.list_checkpoint(name)
            for path, facts in listing.files.items():
                target = directory / path
                target.parent.mkdir(parents=True, exist_ok=True)
                self._calls.fetch_checkpoint(name, path, target, facts.num_bytes)
        except errors.NotFoundError:
            return "its directory is not there, or a file in it"
        except errors.DamagedFileError as error:
            return str(error)
        return checkpoint_manifest.find_damage(directory, sizes)

    @contextlib.contextmanager
    def _errors_explained(self, what: str = "a checkpoint could not be written") -> Iterator[None]:
        try:
            yield
        except OSError as error:
            kind = errors.NoRoomError if disk_errors.is_full(error) else errors.CheckpointError
            raise kind(f"{self._scratch_dir}: {what}: {error}.") from error
