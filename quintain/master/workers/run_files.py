"""File access of a trial's process at the master: its own files, and no others."""

import collections
import contextlib
import hashlib
import json
import logging
import pathlib
import secrets
import threading
from collections.abc import Iterator, Mapping
from typing import Final

from quintain import errors
from quintain.client.home import home as home_lib
from quintain.files import atomic_write
from quintain.master import entries, shared_state, storage_marks
from quintain.master.transfer import model_files, pieces, uploads
from quintain.master.workers import worker_calls
from quintain.records import checkpoint_manifest
from quintain.records.config import experiment_sections
from quintain.records.rows import codec
from quintain.records.views import file_listing
from quintain.storage import checkpoint_storage, storages

logger = logging.getLogger(__name__)

MOST_EVENT_FILES: Final = 10_000
"""Event files that one trial may send."""

MOST_EVENT_BYTES: Final = 4 * 2**30
"""Size of the event files that one trial may send."""

_MOST_LISTINGS: Final = 64
_ANY_SIZE: Final = experiment_sections.CodeConfig(max_files=2**31, max_mib=2**31)


class RunFiles:
    """Finds, and takes, the files of trials. All methods may be called from several threads.

    All raise `GoneError` if the launch of the trial is not wanted any more.

    Args:
        shared: What the master knows.
        calls: Knows which runs are wanted.
    """

    def __init__(self, shared: shared_state.SharedState, calls: worker_calls.WorkerCalls) -> None:
        self._shared = shared
        self._calls = calls
        self._uploads = uploads.Uploads(kept_bytes=shared_state.MIN_FREE_BYTES)
        self._pieces = pieces.Pieces()
        self._mark = secrets.token_hex(16)
        self._marked: set[pathlib.Path] = set()
        self._listings: collections.OrderedDict[str, file_listing.Listing] = (
            collections.OrderedDict()
        )
        self._lock = threading.Lock()

    def find_places(self, trial_id: int, launch_id: str) -> file_listing.Places:
        """Returns where the master's directories are, marked so that they can be recognised."""
        with self._wanted_launch(trial_id, launch_id) as (entry, _):
            machine = entry.machine_of(trial_id)
            own = self._shared.storage_of(entry.record)
        uuid = machine.checkpoint or machine.source_checkpoint
        source = own if uuid is None else self._find_storage(uuid)
        self._mark_directory(self._shared.home)
        for storage in (own, source):
            if not storages.is_remote(storage.address):
                self._mark_directory(pathlib.Path(storage.place))
        return file_listing.Places(str(self._shared.home), self._mark)

    def find_code(self, trial_id: int, launch_id: str) -> pathlib.Path:
        """Returns the directory of the code of a trial."""
        with self._wanted_launch(trial_id, launch_id) as (entry, _):
            return pathlib.Path(entry.record.model_dir)

    def list_code(self, trial_id: int, launch_id: str) -> file_listing.Listing:
        """Returns what the code consists of. It never changes, and is read once."""
        directory = self.find_code(trial_id, launch_id)
        with self._lock:
            known = self._listings.get(str(directory))
        if known is None:
            known = _list_code(directory)
            with self._lock:
                self._listings[str(directory)] = known
                while len(self._listings) > _MOST_LISTINGS:
                    self._listings.popitem(last=False)
        return known

    def find_checkpoint(self, trial_id: int, launch_id: str, uuid: str) -> pathlib.Path:
        """Returns the directory of the checkpoint that a trial goes on from.

        Raises:
            NotFoundError: If it is not that one, or its directory is not there.
            CheckpointError: If no checkpoint can be read.
        """
        with self._wanted_launch(trial_id, launch_id) as (entry, _):
            machine = entry.machine_of(trial_id)
            own = (machine.checkpoint, machine.source_checkpoint)
        if uuid not in own:
            raise errors.NotFoundError(
                f"checkpoint {errors.show(uuid)}: is not one that trial {trial_id} goes on from."
            )
        root = _require_directory(self._find_storage(uuid))
        if not (root / uuid).is_dir():
            checkpoint_manifest.require_storage(root)
            raise errors.NotFoundError(f"checkpoint {uuid}: its directory is not there.")
        return root / uuid

    def list_checkpoint(self, trial_id: int, launch_id: str, uuid: str) -> file_listing.Listing:
        """Returns the files of that checkpoint that are there."""
        directory = self.find_checkpoint(trial_id, launch_id, uuid)
        found = checkpoint_manifest.list_files(directory)
        return file_listing.Listing(
            {
                name: file_listing.FileFacts(size)
                for name, size in found.items()
                if not name.endswith("/")
            }
        )

    # What is sent.

    def begin_upload(
        self, trial_id: int, launch_id: str, uuid: str, sizes: Mapping[str, int]
    ) -> uploads.Received:
        """Begins to take a checkpoint, or goes on with it; see `uploads.Uploads.begin`."""
        root, owner = self._find_owner(trial_id, launch_id)
        storage_marks.mark(self._shared, owner.experiment_id)
        checkpoint_manifest.require_storage(root)
        return self._uploads.begin(root, owner, uuid, sizes)

    def write_upload(
        self, trial_id: int, launch_id: str, uuid: str, path: str, offset: int
    ) -> contextlib.AbstractContextManager[pieces.Piece]:
        """Gives what writes a piece of a file of a checkpoint."""
        self._find_owner(trial_id, launch_id)
        return self._uploads.write(launch_id, uuid, path, offset)

    def commit_upload(self, trial_id: int, launch_id: str, uuid: str) -> None:
        """Makes what was sent a checkpoint; see `uploads.Uploads.commit`."""
        root, owner = self._find_owner(trial_id, launch_id)
        self._uploads.commit(root, owner, uuid)

    def discard_upload(self, trial_id: int, launch_id: str, uuid: str) -> None:
        """Lets go of what was sent."""
        self._find_owner(trial_id, launch_id)
        self._uploads.discard(launch_id, uuid)

    def list_events(self, trial_id: int, launch_id: str) -> dict[str, int]:
        """Returns the sizes of the event files of a trial, by their paths."""
        directory = self._find_event_dir(trial_id, launch_id)
        found = checkpoint_manifest.list_files(directory)
        return {name: size for name, size in found.items() if not name.endswith("/")}

    def write_events(
        self, trial_id: int, launch_id: str, path: str, offset: int
    ) -> contextlib.AbstractContextManager[pieces.Piece]:
        """Gives what writes a piece of an event file.

        Raises:
            ConfigError: If these are too many files or bytes.
        """
        directory = self._find_event_dir(trial_id, launch_id)
        file_listing.check_path(path)
        others = self.list_events(trial_id, launch_id)
        others.pop(path, None)
        if len(others) >= MOST_EVENT_FILES:
            raise errors.ConfigError(
                f"file {errors.show(path)}: the trial has {len(others)} event files already."
            )
        most_bytes = max(MOST_EVENT_BYTES - sum(others.values()), 0)
        directory.mkdir(parents=True, exist_ok=True)
        pieces.require_space(directory, 0, shared_state.MIN_FREE_BYTES)
        return self._pieces.begin(directory / path, offset, most_bytes)

    def _find_event_dir(self, trial_id: int, launch_id: str) -> pathlib.Path:
        return home_lib.find_event_dir(self.find_code(trial_id, launch_id), trial_id)

    def _find_owner(self, trial_id: int, launch_id: str) -> tuple[pathlib.Path, uploads.Owner]:
        with self._wanted_launch(trial_id, launch_id) as (entry, _):
            root = _require_directory(self._shared.storage_of(entry.record))
            home_id = self._shared.deletions.home_id
            return root, uploads.Owner(home_id, entry.id, trial_id, launch_id)

    def _find_storage(self, uuid: str) -> checkpoint_storage.CheckpointStorage:
        with self._shared.store.reading() as session:
            record = session.get_checkpoint(uuid)
            return self._shared.find_storage(session, record.experiment_id)

    @contextlib.contextmanager
    def _wanted_launch(
        self, trial_id: int, launch_id: str
    ) -> Iterator[tuple[entries.Entry, entries.LiveLaunch]]:
        with self._shared.condition:
            live = self._calls.find_launch(trial_id, launch_id)
            yield self._shared.entry(live.record.experiment_id), live

    def _mark_directory(self, directory: pathlib.Path) -> None:
        """Lets a directory say that it is this master's, if it can be written to."""
        with self._lock:
            if directory in self._marked:
                return
            name = file_listing.mark_name(self._shared.deletions.home_id)
            try:
                is_home = directory == self._shared.home
                if not (is_home or checkpoint_manifest.is_storage(directory)):
                    return  # Its disk is not mounted; what takes its place is not marked.
                atomic_write.write_atomically(directory / name, self._mark, mode=0o600)
            except OSError as error:
                logger.warning(
                    "%s can't be marked (%s): processes on other machines ask the master for what "
                    "is in it.",
                    directory,
                    error,
                )
            else:
                self._marked.add(directory)


def _require_directory(storage: checkpoint_storage.CheckpointStorage) -> pathlib.Path:
    """Returns the directory of a storage of this machine.

    Raises:
        NotFoundError: If it is elsewhere, where processes of trials get what they need themselves.
    """
    if storages.is_remote(storage.address):
        raise errors.NotFoundError(
            f"{storage.place}: the checkpoints are there, and not with the master."
        )
    return pathlib.Path(storage.place)


def _list_code(directory: pathlib.Path) -> file_listing.Listing:
    found = model_files.list_files(directory, _ANY_SIZE, has_rules=False)
    files = {
        name: file_listing.FileFacts(
            size,
            checkpoint_manifest.hash_file(directory / name),
            is_executable=bool((directory / name).stat().st_mode & 0o100),
        )
        for name, size in sorted(found.files.items())
    }
    listing = file_listing.Listing(files, dict(sorted(found.links.items())))
    text = json.dumps(codec.to_plain(listing), sort_keys=True)
    return file_listing.Listing(
        files, listing.links, digest=hashlib.sha256(text.encode()).hexdigest()
    )
