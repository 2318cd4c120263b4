"""Interfaces of a checkpoint storage, for trials' processes and for the master.

A checkpoint has a name, a UUID. It appears whole or not at all: its manifest
(`records.checkpoint_manifest`), which lists all other files, is written last, and what has none is
no checkpoint. A process of a trial needs little of a storage (`TrialStorage`); the master, commands
and the page also list, read and delete (`CheckpointStorage`).
"""

import abc
import dataclasses
import hashlib
import pathlib
from collections.abc import Mapping
from typing import Any, BinaryIO, Final

from quintain import errors
from quintain.records import checkpoint_manifest

PIECE_BYTES: Final = 2**20
"""Bytes of a file that are held in memory at a time."""


@dataclasses.dataclass(frozen=True)
class Writer:
    """Writer of a checkpoint: by it the master finds what a killed process had begun."""

    home_id: str = ""
    """The home of the experiment."""

    experiment_id: int = 0
    """The experiment."""

    launch_id: str = ""
    """The start of the trial; all processes of a trial have the same."""

    is_expected: bool = False
    """Whether a directory for the checkpoints has been made before, and marked."""


@dataclasses.dataclass(frozen=True)
class StoredEntry:
    """Entry of a storage: a checkpoint, or what is left of one."""

    name: str
    """Its name: of a checkpoint, its UUID."""

    num_bytes: int
    """Size of all its files."""

    time: float
    """Seconds since the epoch, when it was changed last."""

    is_complete: bool
    """Whether it has a manifest."""


class TrialStorage(abc.ABC):
    """Storage as a trial's process uses it.

    A checkpoint is written in this order: `stage` gives a local directory, the trial writes its
    files and the manifest there, `commit` makes it a checkpoint.
    """

    @property
    def is_remote(self) -> bool:
        """True if `commit` sends files to another machine, so that waiting for it is costly."""
        return False

    @property
    def upload_request(self) -> Mapping[str, Any] | None:
        """Settings with which `upload_process` commits; None if a thread may do it.

        A thread may not if random numbers of Python are drawn for it.
        """
        return None

    @abc.abstractmethod
    def stage(self, name: str) -> pathlib.Path:
        """Returns an empty local directory for the files of a new checkpoint.

        Raises:
            CheckpointError: If nothing can be written.
        """

    @abc.abstractmethod
    def commit(self, directory: pathlib.Path, name: str) -> None:
        """Makes a staged directory with a manifest a checkpoint; the directory is gone then.

        Raises:
            CheckpointError: If it can't be written; there is no checkpoint of this name then.
        """

    @abc.abstractmethod
    def discard(self, directory: pathlib.Path, name: str) -> None:
        """Lets go of a staged directory, as far as it goes; never raises."""

    @abc.abstractmethod
    def fetch(
        self, name: str, directory: pathlib.Path, sizes: Mapping[str, int] | None = None
    ) -> pathlib.Path:
        """Returns a local directory with all files of a checkpoint, every one as it was written.

        Args:
            name: Name of the checkpoint.
            directory: Where copies may be made; a storage of this machine needs none.
            sizes: Bytes of each file that there should be, beside what the manifest says;
                directories, which end in `/`, are not looked for.

        Raises:
            DamagedCheckpointError: If files are missing or are not what was written.
            CheckpointError: If the storage can't be read, which says nothing about the checkpoint.
        """


class CheckpointStorage(TrialStorage):
    """Storage as the master and commands use it."""

    @property
    @abc.abstractmethod
    def place(self) -> str:
        """Place of the storage, for people: a directory or a URL."""

    @property
    @abc.abstractmethod
    def address(self) -> str:
        """Text from which `storages.open_address` builds it again; there is no secret in it."""

    @abc.abstractmethod
    def check(self) -> None:
        """Checks that checkpoints can be written and deleted there, before anything is begun.

        Raises:
            ConfigError: If not; it says why, and what to do.
        """

    @abc.abstractmethod
    def list(self) -> list[StoredEntry]:
        """Returns all that is there, by name.

        Raises:
            CheckpointError: If it can't be read.
        """

    @abc.abstractmethod
    def find_files(self, name: str) -> dict[str, int]:
        """Returns the sizes in bytes of the files of a checkpoint by their paths; none if none.

        Raises:
            CheckpointError: If it can't be read.
        """

    @abc.abstractmethod
    def open(self, name: str, path: str) -> BinaryIO:
        """Opens one of its files for reading; it can seek.

        Raises:
            NotFoundError: If there is no such file.
            CheckpointError: If it can't be read.
        """

    @abc.abstractmethod
    def delete(self, name: str) -> None:
        """Deletes all files of a checkpoint, its manifest last. What is gone is no error.

        Raises:
            CheckpointError: If it can't.
        """

    @abc.abstractmethod
    def may_have(self, name: str) -> bool:
        """Returns whether something of this name may be there, as far as that is known at once."""

    @abc.abstractmethod
    def delete_unfinished(self, directory_name: str, home_id: str) -> None:
        """Deletes what a process had begun to write, as far as it is no checkpoint.

        Args:
            directory_name: `checkpoint_manifest.unfinished_name` of the process.
            home_id: The home that it wrote for; what others wrote is left.

        Raises:
            CheckpointError: If it can't.
        """

    @abc.abstractmethod
    def find_writer(self, name: str) -> str | None:
        """Returns the home for which something without a manifest was written; None if unknown."""

    def list_files(self, name: str) -> dict[str, int]:
        """Returns the same of a checkpoint that has to be there.

        Raises:
            CheckpointError: If it is not, or can't be read.
        """
        found = self.find_files(name)
        if not found:
            raise errors.CheckpointError(
                f"checkpoint {name}: its directory {self.locate(name)} is not there."
            )
        return found

    def locate(self, name: str) -> str:
        """Returns where a checkpoint is, for people and as `TrialSpec` names it."""
        return f"{self.place.rstrip('/')}/{name}"

    def read(self, name: str, path: str) -> bytes:
        """Returns the content of a small file.

        Raises:
            NotFoundError: If there is none.
            CheckpointError: If it can't be read.
        """
        with self.open(name, path) as file:
            return file.read()

    def read_manifest(self, name: str) -> checkpoint_manifest.Manifest:
        """Returns what a checkpoint says about itself.

        Raises:
            CheckpointError: If it says nothing, or can't be read.
        """
        where = self.locate(name)
        try:
            data = self.read(name, checkpoint_manifest.FILE_NAME)
        except errors.NotFoundError as error:
            raise errors.CheckpointError(
                f"{where}: there is no complete checkpoint of a trial here: it has no "
                f"{checkpoint_manifest.FILE_NAME}."
            ) from error
        return checkpoint_manifest.parse(data, where)

    def find_damage(self, name: str, sizes: Mapping[str, int]) -> str | None:
        """Returns what is wrong with the files of a checkpoint, or None if it is whole.

        Raises:
            CheckpointError: If the storage can't be read at all.
        """
        found = self.find_files(name)
        if checkpoint_manifest.FILE_NAME not in found:
            return f"{checkpoint_manifest.FILE_NAME} is not there"
        manifest = self.read_manifest(name)
        damage = checkpoint_manifest.find_wrong_size(found, {**manifest.sizes, **sizes})
        if damage is not None:
            return damage
        for path, expected in sorted(manifest.hashes.items()):
            if self.hash_file(name, path) != expected:
                return f"{path} is not what was written"
        return None

    def hash_file(self, name: str, path: str) -> str:
        """Returns the SHA-256 of a file of a checkpoint."""
        digest = hashlib.sha256()
        with self.open(name, path) as file:
            while piece := file.read(PIECE_BYTES):
                digest.update(piece)
        return digest.hexdigest()

    def build_damaged(self, name: str, damage: str) -> errors.DamagedCheckpointError:
        """Returns the error of a checkpoint whose files are not as they were written."""
        return errors.DamagedCheckpointError(f"{self.locate(name)}: {damage}.", damage)
