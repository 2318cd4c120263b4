"""Deletion of directories, each after a tombstone of its exact name was stored.

The note (`records.rows.deletion`) is written in the transaction that decides, and taken away after
the directory is gone; a deletion that was interrupted is finished at the next start. Before the
first file goes, the directory is looked at: it must lie where the note says, not behind a symbolic
link, and must not name another home or experiment. What does not fit is kept, and the log says so.
"""

import contextlib
import logging
import pathlib
import re
import stat
import threading
import time
from collections.abc import Iterable
from typing import Final

from quintain import errors
from quintain.files import changing_files
from quintain.master.cleanup import home_identity, remote_deletions
from quintain.records import checkpoint_manifest
from quintain.records.rows import deletion
from quintain.storage import directory_storage
from quintain.store import store as store_lib

logger = logging.getLogger(__name__)

_OWN_ROOTS: Final = ("experiments", "scratch")
_Kind = deletion.DeletionKind
_OF_STORAGES: Final = frozenset({_Kind.CHECKPOINT, _Kind.UNFINISHED, _Kind.ORPHAN})


class Deletions:
    """Deletes directories by their tombstones. All methods may be called from several threads.

    Attributes:
        wake: Set when something was noted.
        has_postponed: Whether something is to be tried again, because a storage did not answer.
    """

    def __init__(self, store: store_lib.Store, home: pathlib.Path) -> None:
        self._store = store
        self._home = home
        self._running = threading.Lock()
        self._refused: set[int] = set()
        self._silent: set[str] = set()
        self._told: set[str] = set()
        self.has_postponed = False
        self.home_id = ""
        self.wake = threading.Event()

    def note(
        self,
        kind: deletion.DeletionKind,
        root: pathlib.Path | str,
        names: Iterable[str],
        experiment_id: int,
    ) -> list[deletion.Deletion]:
        """Returns notes to store for names in `root`, a directory or the address of a storage."""
        place = str(root)
        if pathlib.Path(place).is_relative_to(self._home):
            # A home that was moved still finds what it noted.
            place = str(pathlib.Path(place).relative_to(self._home))
        now = time.time()
        # The lock of the master is held, and the transaction is over before it is free.
        self.wake.set()
        return [deletion.Deletion(0, kind, place, name, experiment_id, now) for name in names]

    def run(self, *, is_last: bool = False) -> None:
        """Deletes what was noted. What can't be deleted now is tried at the next start again.

        Storages of other machines that do not answer are tried again with the next call.

        Args:
            is_last: Whether the master ends: those that did not answer are not waited for again.
        """
        with self._running:
            self.has_postponed = False
            if not is_last:
                self._silent.clear()
            try:
                with self._store.reading() as session:
                    noted = session.list_deletions()
                done = [each.id for each in noted if self._delete(each)]
                if done:
                    with self._store.transaction() as session:
                        session.remove_deletions(done)
            except errors.StoreError as error:
                logger.warning("What is to be deleted stays for now: %s", error)

    def _delete(self, noted: deletion.Deletion) -> bool:
        """Deletes a directory; returns whether it is gone."""
        if noted.id in self._refused:
            return False
        if (copy := self._find_copy(noted)) is not None:
            self._refuse(
                noted, f"{noted.root}/{noted.name}", f"{copy}, a copy of this home, has it."
            )
            return False
        if remote_deletions.is_remote(noted):
            return self._delete_remote(noted)
        root = self._home / noted.root
        path = root / noted.name
        try:
            if not path.is_symlink() and not path.exists():
                if self._may_be_gone(noted, root):
                    return True
                reason = f"{root} is not there; is its disk mounted?"
            else:
                reason = self._find_objection(noted, root, path)
            if not reason:
                directory_storage.DirectoryStorage(root).delete(noted.name)
                return True
        except (OSError, errors.CheckpointError) as error:
            reason = str(error)
        self._refuse(noted, str(path), reason)
        return False

    def _find_copy(self, noted: deletion.Deletion) -> str | None:
        """Returns a copy of the home that has a checkpoint as well, or None if there is none."""
        if noted.kind is not _Kind.CHECKPOINT or home_identity.is_inside(self._home, noted.root):
            return None
        if not (copies := home_identity.find_copies(self._home)):
            return None
        saved_secs = 0.0
        with contextlib.suppress(errors.NotFoundError), self._store.reading() as session:
            saved_secs = session.get_checkpoint(noted.name).time
        return next((copy for copy, secs in copies.items() if saved_secs <= secs), None)

    def _delete_remote(self, noted: deletion.Deletion) -> bool:
        """Does the same in a storage of another machine, which may not answer."""
        if noted.root in self._silent:
            return False
        where = remote_deletions.locate(noted)
        try:
            reason = remote_deletions.delete(noted, self.home_id)
        except errors.CheckpointError as error:
            self.has_postponed = True
            self._silent.add(noted.root)
            if noted.root not in self._told:
                self._told.add(noted.root)
                logger.warning("%s is not deleted yet: %s", where, error)
            return False
        self._told.discard(noted.root)
        if reason:
            self._refuse(noted, where, reason)
        return not reason

    def _refuse(self, noted: deletion.Deletion, where: str, reason: str) -> None:
        # Once for each start is enough, for the files as well as for the log.
        self._refused.add(noted.id)
        logger.warning("%s is not deleted: %s", where, reason)

    def _may_be_gone(self, noted: deletion.Deletion, root: pathlib.Path) -> bool:
        """Returns whether the disk is there from which a directory is missing."""
        if noted.kind in _OF_STORAGES and (root.is_symlink() or root != self._home / "checkpoints"):
            return checkpoint_manifest.is_storage(root)
        return self.home_id in home_identity.read_ids(self._home)

    def _find_objection(
        self, noted: deletion.Deletion, root: pathlib.Path, path: pathlib.Path
    ) -> str:
        """Returns why a directory is not the one that was noted, or an empty text."""
        if not is_plain_name(noted.name) or ".." in pathlib.PurePath(noted.root).parts:
            return "this is not the name of a directory and the place where it lies."
        if not stat.S_ISDIR(path.lstat().st_mode):
            return "it is a symbolic link or a file, and no directory."
        if noted.kind is _Kind.EXPERIMENT:
            number = noted.name.partition("-")[0]
            is_own = noted.root in _OWN_ROOTS and number == str(noted.experiment_id)
            return "" if is_own else "it is not a directory of this experiment."
        if noted.kind is _Kind.SCRATCH:
            is_own = noted.root == f"scratch/{noted.experiment_id}"
            return "" if is_own else "it is not a directory of this experiment."
        if noted.kind is _Kind.ORPHAN:
            return ""
        if noted.kind is _Kind.UNFINISHED:
            is_named = re.fullmatch(r"\..+\.tmp", noted.name) is not None
            return "" if is_named else "it is no unfinished checkpoint."
        return self._find_foreign_checkpoint(noted, root, path)

    def _find_foreign_checkpoint(
        self, noted: deletion.Deletion, root: pathlib.Path, path: pathlib.Path
    ) -> str:
        """Returns why a directory is not the checkpoint that was noted, or an empty text."""
        is_at_home = root == self._home / "checkpoints"
        if not (path / checkpoint_manifest.FILE_NAME).exists():
            # The manifest goes last: without it, the rest is gone or was never there.
            is_named = remote_deletions.UUID.fullmatch(noted.name) is not None
            has_rest = bool(changing_files.list_directory(path))
            return "" if is_at_home or (is_named and not has_rest) else "it has no manifest."
        try:
            found = checkpoint_manifest.read(path)
        except errors.CheckpointError as error:
            return "" if is_at_home else str(error)
        # Those inside of a home that is a copy were copied with it.
        is_copied = is_at_home and home_identity.is_inside(self._home, noted.root)
        owners = home_identity.read_ids(self._home) if is_copied else []
        if found.home_id not in ("", self.home_id, *owners):
            return f"it is of another home ({found.home_id})."
        if found.experiment_id != noted.experiment_id:
            return f"it is of experiment {found.experiment_id}, not of {noted.experiment_id}."
        return ""


def is_plain_name(name: str) -> bool:
    """Returns whether a name means a file or directory in the directory that it is appended to."""
    return name not in ("", ".", "..") and "/" not in name and "\0" not in name
