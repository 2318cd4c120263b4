"""Reports of trial processes on checkpoints: ownership and damage."""

import dataclasses
import pathlib
import time

from quintain import errors
from quintain.master import entries, shared_state
from quintain.master.workers import worker_messages
from quintain.records.rows import checkpoint
from quintain.storage import storages
from quintain.store import session as session_lib


def check_own(
    shared: shared_state.SharedState, entry: entries.Entry, trial_id: int, uuid: str
) -> bool:
    """Checks that a checkpoint which a trial names is its own; returns whether it is known.

    The lock is not held meanwhile: disks may be slow.

    Args:
        shared: What the master knows.
        entry: The experiment.
        trial_id: The trial.
        uuid: The checkpoint.

    Raises:
        MessageError: If it is another's, or no checkpoint.
    """
    try:
        with shared.store.reading() as session:
            owner = session.get_checkpoint(uuid).trial_id
    except errors.NotFoundError:
        storage = shared.storage_of(entry.record)
        if not storages.is_remote(storage.address):
            worker_messages.check_owner(pathlib.Path(storage.place) / uuid, entry.id, trial_id)
        return False
    if owner != trial_id:
        raise errors.MessageError(
            f"checkpoint.uuid: got {uuid!r}, which is a checkpoint of trial {owner}."
        )
    return True


def confirm_damage(shared: shared_state.SharedState, trial_id: int, uuid: str, damage: str) -> None:
    """Checks that a checkpoint of another trial is damaged, as a trial says which can't read it.

    Args:
        shared: What the master knows, whose lock is not held: the checkpoint is read.
        trial_id: The trial that has to begin from it.
        uuid: The checkpoint.
        damage: What is wrong with it.

    Raises:
        UnusableCheckpointError: If it is whole.
        CheckpointError: If it can't be read.
    """
    with shared.store.reading() as session:
        record = session.get_checkpoint(uuid)
        storage = shared.find_storage(session, record.experiment_id)
    if record.state is checkpoint.CheckpointState.DAMAGED:
        return  # Hundreds of trials may begin from the same one.
    if storage.find_damage(uuid, record.files) is None:
        raise errors.UnusableCheckpointError(
            f"Trial {trial_id} can't read checkpoint {uuid}, from which it has to begin: {damage}. "
            "The master finds nothing wrong with it."
        )


def go_back(
    shared: shared_state.SharedState,
    entry: entries.Entry,
    live: entries.LiveLaunch,
    uuid: str,
    damage: str,
) -> None:
    """Marks a checkpoint, and lets the trial go on from the one before, or begin anew.

    Args:
        shared: What the master knows, whose lock is held.
        entry: The experiment.
        live: The process that says so.
        uuid: The checkpoint, from which its trial goes on or begins.
        damage: What is wrong with it.

    Raises:
        UnusableCheckpointError: If it is another trial's.
    """
    trial_id = live.record.trial_id
    machine = entry.machine_of(trial_id)
    with shared.store.reading() as session:
        record = session.get_checkpoint(uuid)
        states = [checkpoint.CheckpointState.COMPLETED]
        there = session.list_checkpoints(trial_id=trial_id, states=states)
        usable = {each.uuid for each in there} - {uuid}
    older = [each for each in machine.checkpoints if each in usable]
    text = f"Checkpoint {uuid} (batch {record.total_batches}) is damaged: {damage}."
    is_own = uuid == machine.checkpoint
    if older:
        text += f" The trial goes on from {older[-1]}."
    elif is_own:
        text += " There is no older one of the trial, which begins anew."
    else:
        text += f" Trial {trial_id} can't begin without it."
    marked = dataclasses.replace(
        record,
        state=checkpoint.CheckpointState.DAMAGED,
        metadata={**record.metadata, "damage": damage},
    )

    def write(session: session_lib.Session) -> None:
        session.update_checkpoint(marked)
        session.add_logs([shared.log(trial_id, text)])

    if not is_own:
        shared.write(write)
        raise errors.UnusableCheckpointError(text)
    event = {
        "kind": "damage",
        "request_id": live.request_id,
        "fallback": older[-1] if older else None,
        "reason": text,
    }
    shared.apply(entry, event, write)
    live.outstanding, live.since = None, time.monotonic()
