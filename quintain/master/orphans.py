"""Orphans: directories among the checkpoints that the store does not know.

They are there because a process was killed between saving a checkpoint and reporting it, because an
older copy of the database was restored, or because somebody put them there. Nothing deletes them
but a user who names them.
"""

import dataclasses
import logging
import pathlib
from collections.abc import Collection, Mapping
from typing import Any

from quintain import errors
from quintain.master import shared_state
from quintain.master.cleanup import home_identity
from quintain.master.workers import workload_results
from quintain.records import checkpoint_manifest
from quintain.records.rows import checkpoint, deletion, metric
from quintain.records.rows import experiment as experiment_lib
from quintain.storage import checkpoint_storage, storages
from quintain.store import reading
from quintain.store import session as session_lib
from quintain.store import store as store_lib

logger = logging.getLogger(__name__)

_Found = tuple[checkpoint.Orphan, checkpoint_storage.CheckpointStorage]


def find(store: store_lib.Store, home: pathlib.Path) -> list[checkpoint.Orphan]:
    """Returns all of them, by the storages they are in.

    In a storage that is not the home's own only those are looked at that name this home: others
    may belong to another home that is in order. A storage that can't be read is left out, which
    the log says.
    """
    return [orphan for orphan, _ in _find(store, home)]


def tell(store: store_lib.Store, home: pathlib.Path) -> None:
    """Says what the database does not know: it may be an older copy.

    It may take long: an object store is slow, or away.
    """
    found = find(store, home)
    if found:
        logger.warning(
            "%d directories of checkpoints (%.1f MB) are not known to the database, which may be "
            "an older copy. Nothing is deleted; `quintain checkpoint orphans` lists them.",
            len(found),
            sum(each.num_bytes for each in found) / 1e6,
        )


def _find(store: store_lib.Store, home: pathlib.Path) -> list[_Found]:
    home_id = home_identity.read_id(home) or ""
    own = storages.build({}, home / "checkpoints")
    with store.reading() as session:
        records = session.list_experiments(include_archived=True)
        known = _list_known(session)
    # No transaction waits for it.
    listed = [
        (storage, entry)
        for storage in _list_storages(own, records)
        for entry in _list_entries(storage)
    ]
    found = []
    with store.reading() as session:
        # What was deleted, or came, while it was listed is known as well.
        known |= _list_known(session)
        launches = {each.launch_id for each in session.list_launches()}
        for storage, entry in listed:
            if entry.name in known:
                continue
            orphan = _describe(entry, storage, session, home_id, own)
            is_own = storage is own or (home_id and orphan.home_id == home_id)
            # What a process writes now, or is about to report, is no orphan.
            if is_own and orphan.launch_id not in launches:
                found.append((orphan, storage))
    return found


def _list_known(session: reading.Reader) -> set[str]:
    going = {each.name for each in session.list_deletions()}
    return going.union(session.list_checkpoint_uuids())


def _list_storages(
    own: checkpoint_storage.CheckpointStorage, records: Collection[experiment_lib.Experiment]
) -> list[checkpoint_storage.CheckpointStorage]:
    found = {own.address: own}
    for record in records:
        storage = storages.build(record.config, pathlib.Path(own.address))
        found.setdefault(storage.address, storage)
    return list(found.values())


def _list_entries(
    storage: checkpoint_storage.CheckpointStorage,
) -> list[checkpoint_storage.StoredEntry]:
    try:
        return storage.list()
    except errors.CheckpointError as error:
        logger.warning("What the database does not know there is left out: %s", error)
        return []


def _describe(
    entry: checkpoint_storage.StoredEntry,
    storage: checkpoint_storage.CheckpointStorage,
    session: reading.Reader,
    home_id: str,
    own: checkpoint_storage.CheckpointStorage,
) -> checkpoint.Orphan:
    path = storage.locate(entry.name)
    try:
        manifest = storage.read_manifest(entry.name) if entry.is_complete else None
    except errors.CheckpointError:
        manifest = None
    if manifest is None:
        return checkpoint.Orphan(
            path,
            entry.num_bytes,
            entry.time,
            home_id=storage.find_writer(entry.name),
            launch_id=entry.name.removeprefix(".").removesuffix(".tmp"),
            problem="it has no manifest: it is unfinished, or no checkpoint",
        )
    return checkpoint.Orphan(
        path=path,
        num_bytes=entry.num_bytes,
        time=entry.time,
        home_id=manifest.home_id,
        experiment_id=manifest.experiment_id,
        trial_id=manifest.trial_id,
        total_batches=manifest.total_batches,
        launch_id=manifest.launch_id,
        problem=_find_problem(storage, manifest, session, home_id, own),
    )


def _find_problem(
    storage: checkpoint_storage.CheckpointStorage,
    manifest: checkpoint_manifest.Manifest,
    session: reading.Reader,
    home_id: str,
    own: checkpoint_storage.CheckpointStorage,
) -> str:
    """Returns why the store can't take a checkpoint, or an empty text if it can."""
    if manifest.home_id not in ("", home_id):
        return "it is of another home, or of a former database of this one"
    try:
        owner = session.get_experiment(manifest.experiment_id)
        found = session.get_trial(manifest.trial_id)
    except errors.NotFoundError:
        return "the database does not know its experiment and trial"
    if storages.build(owner.config, pathlib.Path(own.address)).address != storage.address:
        return f"experiment {owner.id} keeps its checkpoints elsewhere"
    is_same = found.seed == manifest.seed and _to_text(found.hparams) == _to_text(manifest.hparams)
    if found.experiment_id != owner.id or not is_same:
        return f"trial {found.id} of the database is another one, with other hyperparameters"
    return ""


def _to_text(hparams: Mapping[str, Any]) -> str:
    return repr(sorted((name, str(value)) for name, value in hparams.items()))


def adopt(shared: shared_state.SharedState, name: str) -> checkpoint.Checkpoint:
    """Gives a checkpoint to the experiment that it names; returns its record.

    It is kept until a user deletes it, whatever the experiment says about its own.

    Raises:
        NotFoundError: If there is no such directory.
        CheckpointError: If its files are damaged, or the store can't take it.
    """
    orphan, storage = _get(shared, name)
    problem = orphan.problem or storage.find_damage(orphan.name, {})
    if problem:
        raise errors.CheckpointError(
            f"{orphan.path}: can't be adopted: {problem}. `quintain checkpoint export` copies the "
            "models in it, if it is given the path; to go on from it, restore the database that "
            "knows it."
        )
    manifest = storage.read_manifest(orphan.name)
    record = checkpoint.Checkpoint(
        uuid=orphan.name,
        trial_id=manifest.trial_id,
        experiment_id=manifest.experiment_id,
        total_batches=manifest.total_batches,
        files=storage.list_files(orphan.name),
        metadata={"is_adopted": True},
        time=orphan.time,
    )

    def write(session: session_lib.Session) -> None:
        value = _find_metric(session, record)
        session.add_checkpoint(dataclasses.replace(record, metric=value))

    with shared.condition:
        shared.write(write)
    logger.info("Checkpoint %s was adopted by trial %d.", record.uuid, record.trial_id)
    with shared.store.reading() as session:
        return session.get_checkpoint(record.uuid)


def _find_metric(session: reading.Reader, record: checkpoint.Checkpoint) -> float | None:
    """Returns the searched metric that the trial had at the state of a checkpoint, if any."""
    owner = session.get_experiment(record.experiment_id)
    rows = session.list_metrics(record.trial_id, group=metric.MetricGroup.VALIDATION)
    name = owner.config.get("searcher", {}).get("metric")
    for row in rows:
        if row.total_batches == record.total_batches:
            value, problem = workload_results.find_metric(name, row.metrics)
            return None if problem else value
    return None


def delete(shared: shared_state.SharedState, name: str) -> checkpoint.Orphan:
    """Deletes a directory that a user has named; returns what it was.

    Raises:
        NotFoundError: If there is no such directory.
    """
    orphan, storage = _get(shared, name)
    kind = deletion.DeletionKind.ORPHAN
    with shared.condition:
        notes = shared.deletions.note(kind, storage.address, [name], orphan.experiment_id or 0)
        shared.write(lambda session: session.add_deletions(notes))
    shared.deletions.run()
    return orphan


def _get(shared: shared_state.SharedState, name: str) -> _Found:
    found = {each[0].name: each for each in _find(shared.store, shared.home)}
    if name not in found:
        raise errors.NotFoundError(
            f"checkpoint {name}: the store knows it, or it is not there; `quintain checkpoint "
            "orphans` lists what it does not know."
        )
    return found[name]
