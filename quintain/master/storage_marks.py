"""Marks of checkpoint directories, which tell an empty storage from a lost disk."""

import pathlib

from quintain.master import shared_state
from quintain.records import checkpoint_manifest
from quintain.records.rows import checkpoint
from quintain.records.views import file_listing
from quintain.storage import retries, storages
from quintain.store import session as session_lib


def mark(shared: shared_state.SharedState, experiment_id: int) -> None:
    """Marks the directory of an experiment's checkpoints before its first process begins.

    One that is empty though the database knows checkpoints in it stays as it is: its disk is not
    mounted, and processes wait for it (`checkpoint_manifest.require_storage`).

    Args:
        shared: What the master knows, whose lock is not held: the directory is looked at.
        experiment_id: The experiment.

    Raises:
        CheckpointError: If the directory can't be read or written to.
    """
    with shared.store.reading() as session:
        storage = shared.find_storage(session, experiment_id)
        if storages.is_remote(storage.address):
            return
        root = pathlib.Path(storage.place)
        try:
            if checkpoint_manifest.is_storage(root) or _is_known(shared, session, storage.address):
                return
            root.mkdir(parents=True, exist_ok=True)
            (root / file_listing.mark_name(shared.deletions.home_id)).touch(mode=0o600)
        except OSError as error:
            kind = retries.find_kind(error)
            raise kind(f"{root}: no checkpoints can be kept there: {error}.") from error


def _is_known(shared: shared_state.SharedState, session: session_lib.Session, address: str) -> bool:
    """Returns whether checkpoints are known that have to be in a storage."""
    states = [checkpoint.CheckpointState.COMPLETED]
    return any(
        shared.storage_of(record).address == address
        and session.list_checkpoints(experiment_id=record.id, states=states)
        for record in session.list_experiments(include_archived=True)
    )
