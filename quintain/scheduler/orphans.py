"""Directories among the checkpoints that the store does not know, and what can be done with them.

They are there because a process was killed between saving a checkpoint and reporting it, because an
older copy of the database was restored, or because somebody put them there. Nothing deletes them
but a user who names them.
"""

import dataclasses
import logging
import os
import pathlib
from collections.abc import Collection, Mapping
from typing import Any

from quintain import errors
from quintain.records import checkpoint, checkpoint_manifest, deletion, experiment_spec, metric
from quintain.records import experiment as experiment_lib
from quintain.scheduler import core as core_lib
from quintain.scheduler import home_identity, workload_results
from quintain.store import reading
from quintain.store import session as session_lib

logger = logging.getLogger(__name__)


def find(store: reading.ReadableStore, home: pathlib.Path) -> list[checkpoint.Orphan]:
    """Returns all of them, by the directories they are in.

    In a directory that is not the home's own only those are looked at that name this home: others
    may belong to another home that is in order.

    Args:
        store: What is known.
        home: The home directory.
    """
    home_id = home_identity.read_id(home) or ""
    own_root = home / "checkpoints"
    with store.reading() as session:
        records = session.list_experiments(include_archived=True)
        known = session.list_checkpoint_uuids()
        going = {each.name for each in session.list_deletions()}
        launches = {each.launch_id for each in session.list_runs()}
        found = []
        for root in _list_roots(own_root, records):
            for path in _list_directories(root):
                if path.name in known | going:
                    continue
                orphan = _describe(path, session, home_id)
                is_own = root == own_root or (home_id and orphan.home_id == home_id)
                # What a process writes now, or is about to report, is no orphan.
                if is_own and orphan.launch_id not in launches:
                    found.append(orphan)
    return found


def _list_roots(
    own_root: pathlib.Path, records: Collection[experiment_lib.Experiment]
) -> list[pathlib.Path]:
    roots = {own_root: None}
    for record in records:
        root = experiment_spec.find_checkpoint_directory(record.config, str(own_root))
        roots[pathlib.Path(root)] = None
    return list(roots)


def _list_directories(root: pathlib.Path) -> list[pathlib.Path]:
    if not root.is_dir():
        return []
    return sorted(path for path in root.iterdir() if path.is_dir() and not path.is_symlink())


def _describe(path: pathlib.Path, session: reading.Reader, home_id: str) -> checkpoint.Orphan:
    size = sum(
        os.lstat(os.path.join(folder, name)).st_size
        for folder, _, names in os.walk(path)
        for name in names
    )
    changed = path.stat().st_mtime
    try:
        manifest = checkpoint_manifest.read(path)
    except errors.CheckpointError:
        launch_id = path.name.removeprefix(".").removesuffix(".tmp")
        problem = "it has no manifest: it is unfinished, or no checkpoint"
        return checkpoint.Orphan(str(path), size, changed, launch_id=launch_id, problem=problem)
    return checkpoint.Orphan(
        path=str(path),
        num_bytes=size,
        time=changed,
        home_id=manifest.home_id,
        experiment_id=manifest.experiment_id,
        trial_id=manifest.trial_id,
        total_batches=manifest.total_batches,
        launch_id=manifest.launch_id,
        problem=_find_problem(path, manifest, session, home_id),
    )


def _find_problem(
    path: pathlib.Path,
    manifest: checkpoint_manifest.Manifest,
    session: reading.Reader,
    home_id: str,
) -> str:
    """Returns why the store can't take a checkpoint, or an empty text if it can."""
    if manifest.home_id not in ("", home_id):
        return "it is of another home, or of a former database of this one"
    try:
        owner = session.get_experiment(manifest.experiment_id)
        found = session.get_trial(manifest.trial_id)
    except errors.NotFoundError:
        return "the database does not know its experiment and trial"
    root = experiment_spec.find_checkpoint_directory(owner.config, str(path.parent))
    if pathlib.Path(root) != path.parent:
        return f"experiment {owner.id} keeps its checkpoints elsewhere"
    is_same = found.seed == manifest.seed and _to_text(found.hparams) == _to_text(manifest.hparams)
    if found.experiment_id != owner.id or not is_same:
        return f"trial {found.id} of the database is another one, with other hyperparameters"
    return ""


def _to_text(hparams: Mapping[str, Any]) -> str:
    return repr(sorted((name, str(value)) for name, value in hparams.items()))


def adopt(core: core_lib.Core, name: str) -> checkpoint.Checkpoint:
    """Gives a checkpoint to the experiment that it names; returns its record.

    It is kept until a user deletes it, whatever the experiment says about its own.

    Raises:
        NotFoundError: If there is no such directory.
        CheckpointError: If its files are damaged, or the store can't take it.
    """
    orphan = _get(core, name)
    path = pathlib.Path(orphan.path)
    problem = orphan.problem or checkpoint_manifest.find_damage(path, {})
    if problem:
        raise errors.CheckpointError(
            f"{path}: can't be adopted: {problem}. `quintain checkpoint export` copies the models "
            "in it, if it is given the path; to go on from it, restore the database that knows it."
        )
    manifest = checkpoint_manifest.read(path)
    record = checkpoint.Checkpoint(
        uuid=path.name,
        trial_id=manifest.trial_id,
        experiment_id=manifest.experiment_id,
        total_batches=manifest.total_batches,
        files=checkpoint_manifest.list_files(path),
        metadata={"is_adopted": True},
        time=orphan.time,
    )

    def write(session: session_lib.Session) -> None:
        value = _find_metric(session, record)
        session.add_checkpoint(dataclasses.replace(record, metric=value))

    with core.condition:
        core.write(write)
    logger.info("Checkpoint %s was adopted by trial %d.", record.uuid, record.trial_id)
    with core.store.reading() as session:
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


def delete(core: core_lib.Core, name: str) -> checkpoint.Orphan:
    """Deletes a directory that a user has named; returns what it was.

    Raises:
        NotFoundError: If there is no such directory.
    """
    orphan = _get(core, name)
    root = pathlib.Path(orphan.path).parent
    kind = deletion.DeletionKind.ORPHAN
    with core.condition:
        notes = core.deletions.note(kind, root, [name], orphan.experiment_id or 0)
        core.write(lambda session: session.add_deletions(notes))
    core.deletions.run()
    return orphan


def _get(core: core_lib.Core, name: str) -> checkpoint.Orphan:
    found = {each.name: each for each in find(core.store, core.home)}
    if name not in found:
        raise errors.NotFoundError(
            f"checkpoint {name}: the store knows it, or it is not there; `quintain checkpoint "
            "orphans` lists what it does not know."
        )
    return found[name]
