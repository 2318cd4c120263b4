"""Files of a trial on the machine of its process.

What a master says names them and gives no paths. A process on the machine of the master finds them
in the master's home. One elsewhere (it has a cache) looks whether it sees the same directories, by
a file in them that says whose they are; what it does not see it fetches from the master.

| variable | content |
|---|---|
| `QUINTAIN_SCRATCH` | directory for files of this process that nobody else needs |
| `QUINTAIN_MASTER_HOME` | home directory of the master, on the master's machine |
| `QUINTAIN_CACHE` | directory for what processes of this machine share; there on other machines |
| `QUINTAIN_CACHE_LIMIT` | bytes that it keeps to |
"""

import dataclasses
import logging
import os
import pathlib
import time
import uuid
from collections.abc import Mapping
from typing import Any, Final

from quintain import errors
from quintain.client import file_calls
from quintain.client.home import home as home_lib
from quintain.records import checkpoint_manifest
from quintain.records.rows import trial
from quintain.records.views import file_listing
from quintain.storage import checkpoint_storage, directory_storage, retries, storages
from quintain.trials import trial_context
from quintain.trials.process import master_storage, node_cache

logger = logging.getLogger(__name__)

_CHECKPOINTS: Final = "checkpoints"
_CODE: Final = "code"
_ROOM_SECS: Final = 600.0
"""So long is waited for room in the cache of the machine."""

_EVENTS_SECS: Final = 10.0
"""Event files are sent no more often, but at the end."""


@dataclasses.dataclass(frozen=True)
class Machine:
    """Settings that a launcher gives a process about its machine."""

    scratch_dir: pathlib.Path
    """Directory for files of the process that nobody else needs."""

    master_home: pathlib.Path
    """Home directory of the master, on the master's machine."""

    cache_dir: pathlib.Path | None = None
    """Directory that processes of this machine share; None on the machine of the master."""

    cache_limit_bytes: int = node_cache.DEFAULT_LIMIT_BYTES
    """Size that it keeps to."""

    @classmethod
    def from_environment(cls, environment: Mapping[str, str]) -> "Machine":
        """Reads the variables.

        Raises:
            ConfigError: If one is missing or not what is expected.
        """
        for name in ("QUINTAIN_SCRATCH", "QUINTAIN_MASTER_HOME"):
            if not environment.get(name):
                raise errors.ConfigError(f"{name}: missing; a launcher sets it.")
        limit = environment.get("QUINTAIN_CACHE_LIMIT") or str(node_cache.DEFAULT_LIMIT_BYTES)
        if not limit.isdecimal():
            raise errors.ConfigError(
                f"QUINTAIN_CACHE_LIMIT: got {limit!r}, expected a number of bytes."
            )
        cache = environment.get("QUINTAIN_CACHE")
        return cls(
            pathlib.Path(environment["QUINTAIN_SCRATCH"]),
            pathlib.Path(environment["QUINTAIN_MASTER_HOME"]),
            pathlib.Path(cache) if cache else None,
            int(limit),
        )


class TrialFiles:
    """Finds, fetches and sends the files of one trial."""

    def __init__(self, machine: Machine, calls: file_calls.FileCalls) -> None:
        self._machine = machine
        self._calls = calls
        self._cache: node_cache.NodeCache | None = None
        if machine.cache_dir is not None:
            self._cache = node_cache.NodeCache(machine.cache_dir, machine.cache_limit_bytes)
        self._home = machine.master_home
        self._mark = ""
        self._event_dir: pathlib.Path | None = None
        self._sent_at_secs = -_EVENTS_SECS

    def resolve(self, order: trial.TrialOrder) -> trial.TrialSpec:
        """Returns an order with the places of everything on this machine; fetches the code.

        Raises:
            CheckpointError: If there is no room for the code.
            GoneError: If this launch of the trial is not wanted any more.
        """
        scratch = self._machine.scratch_dir
        if self._cache is not None:
            places = self._calls.find_places()
            self._home, self._mark = pathlib.Path(places.home), places.mark
        if self._cache is None or self._is_shared(self._home, order):
            model_dir = self._home / order.code_name
            event_dir = home_lib.find_event_dir(model_dir, order.trial_id)
        else:
            model_dir = self._fetch_code(self._cache)
            event_dir = self._event_dir = scratch / trial_context.TENSORBOARD
        return trial.TrialSpec(
            **vars(order),
            model_dir=str(model_dir),
            checkpoint_dir=str(scratch / _CHECKPOINTS),
            scratch_dir=str(scratch),
            tensorboard_dir=str(event_dir),
        )

    def open_storage(
        self, order: trial.TrialOrder, content: Mapping[str, Any]
    ) -> checkpoint_storage.TrialStorage:
        """Returns a storage of checkpoints.

        Args:
            order: The trial.
            content: Config of an experiment, or `checkpoint_storage` of it.
        """
        writer = checkpoint_storage.Writer(
            order.home_id, order.experiment_id, order.launch_id, is_expected=True
        )
        own, scratch = home_lib.Home(self._home).checkpoints, self._machine.scratch_dir
        storage = storages.build(content, own, writer=writer, scratch=scratch)
        is_directory = isinstance(storage, directory_storage.DirectoryStorage)
        if self._cache is None or not is_directory:
            return storage
        if self._is_shared(pathlib.Path(storage.place), order):
            return storage
        return master_storage.MasterStorage(self._calls, scratch)

    def fetch_checkpoint(self, spec: trial.TrialSpec) -> pathlib.Path:
        """Returns a directory of this machine with the checkpoint that a trial goes on from.

        Raises:
            DamagedCheckpointError: If files are missing or are not what was written.
            CheckpointError: If the storage can't be read, which says nothing about the checkpoint;
                or there is no room for it.
        """
        assert spec.checkpoint is not None, "asked for the checkpoint of a trial that begins anew"
        name, sizes = spec.checkpoint, spec.checkpoint_files
        storage = self.open_storage(spec, {"checkpoint_storage": spec.checkpoint_storage})
        is_directory = isinstance(storage, directory_storage.DirectoryStorage)
        if self._cache is None or is_directory:
            target = self._machine.scratch_dir / "fetched" / name
            return retries.outlast_full_disks(
                lambda: storage.fetch(name, target, sizes), doing=f"fetching {_CHECKPOINTS}"
            )

        def fill(directory: pathlib.Path) -> None:
            storage.fetch(name, directory, sizes)

        return self._hold(self._cache, _CHECKPOINTS, name, sum(sizes.values()), fill)

    def note_result(self) -> None:
        """Lets go of the checkpoint, which has been read, and sends event files that have grown."""
        if self._cache is not None:
            self._cache.release(_CHECKPOINTS)
            if time.monotonic() - self._sent_at_secs >= _EVENTS_SECS:
                self._send_events()

    def close(self) -> None:
        """Sends the rest of the event files, and lets go of the cache."""
        if self._cache is not None:
            self._send_events()
            self._cache.close()

    def _is_shared(self, directory: pathlib.Path, order: trial.TrialOrder) -> bool:
        try:
            found = (directory / file_listing.mark_name(order.home_id)).read_text(encoding="utf-8")
        except (OSError, ValueError):
            return False
        return bool(self._mark) and found == self._mark

    def _fetch_code(self, cache: node_cache.NodeCache) -> pathlib.Path:
        listing = self._calls.list_code()

        def fill(directory: pathlib.Path) -> None:
            for name, facts in listing.files.items():
                target = file_listing.make_target(directory, name)
                self._fetch_code_file(name, facts, target)
            for name, link in listing.links.items():
                place = file_listing.make_target(directory, name)
                file_listing.make_target(
                    directory, os.path.normpath(os.path.join(os.path.dirname(name), link))
                )
                place.unlink(missing_ok=True)
                place.symlink_to(link)

        directory = self._hold(cache, _CODE, listing.digest, listing.num_bytes, fill)
        self._mend_code(directory, listing)
        return directory

    def _hold(
        self,
        cache: node_cache.NodeCache,
        kind: str,
        name: str,
        num_bytes: int,
        fill: node_cache.Fill,
    ) -> pathlib.Path:
        """Returns a directory of the cache; waits for room, which other trials may give back.

        Not for ever: what this trial holds already may be what others wait for, or it itself. It
        ends then, gives that back, and is started again.
        """
        return retries.outlast_full_disks(
            lambda: cache.hold(kind, name, num_bytes, fill),
            doing=f"fetching {kind}",
            patience_secs=_ROOM_SECS,
        )

    def _mend_code(self, directory: pathlib.Path, listing: file_listing.Listing) -> None:
        """Fetches again what was cut or changed in the cache since it was fetched."""
        for name, facts in listing.files.items():
            target = file_listing.make_target(directory, name)
            if target.is_file() and checkpoint_manifest.hash_file(target) == facts.sha256:
                continue
            logger.warning("%s is not what was fetched; it is fetched again.", target)
            # Other trials may read it now.
            whole = target.with_name(f".{uuid.uuid4().hex}")
            try:
                self._fetch_code_file(name, facts, whole)
                whole.replace(target)
            finally:
                whole.unlink(missing_ok=True)

    def _fetch_code_file(
        self, name: str, facts: file_listing.FileFacts, target: pathlib.Path
    ) -> None:
        for _ in range(2):  # What a killed process has left there may not be the same.
            self._calls.fetch_code(name, target, facts.num_bytes)
            if checkpoint_manifest.hash_file(target) == facts.sha256:
                target.chmod(0o700 if facts.is_executable else 0o600)
                return
            target.unlink()
        raise errors.CheckpointError(
            f"file {name!r} of the code is not what it was when the experiment was created: its "
            "hash differs. Restore it in the home directory of the master."
        )

    def _send_events(self) -> None:
        """Sends what has grown of the event files. Nothing that goes wrong ends the trial."""
        self._sent_at_secs = time.monotonic()
        if self._event_dir is None or not self._event_dir.is_dir() or self._calls.is_lost:
            return
        try:
            there = self._calls.list_events()
            found = checkpoint_manifest.list_files(self._event_dir)
            for name, size in found.items():
                if not name.endswith("/") and size > there.get(name, 0):
                    source = self._event_dir / name
                    self._calls.send_events(name, source, there.get(name, 0))
        except (errors.QuintainError, OSError) as error:
            logger.warning("Event files are not sent to the master now: %s", error)
