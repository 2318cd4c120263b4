"""Registry of models: new versions with their receipts, promotion to aliases, deletion."""

import dataclasses
import json
import time
from typing import Any

from quintain import errors
from quintain.master import shared_state
from quintain.master.models import promotion_rule
from quintain.records.config import provenance
from quintain.records.rows import checkpoint as checkpoint_lib
from quintain.records.rows import codec, metric, registered_model
from quintain.records.rows import experiment as experiment_lib
from quintain.records.rows import trial as trial_lib
from quintain.store import session as session_lib


def register_checkpoint(
    shared: shared_state.SharedState, name: str, uuid: str, *, alias: str, note: str
) -> registered_model.ModelVersion:
    """Registers a checkpoint of a trial, whose files are read for the receipt.

    Raises:
        ConfigError: If the name or the alias can't be taken.
        CheckpointError: If the files are not there.
    """
    _check_names(name, alias)
    with shared.store.reading() as session:
        found = session.get_checkpoint(uuid)
        trial = session.get_trial(found.trial_id)
        experiment = session.get_experiment(found.experiment_id)
        metrics = _find_metrics(session, found, experiment)
    _check_usable(found)
    storage = shared.storage_of(experiment)
    files = {path: storage.hash_file(uuid, path) for path in sorted(storage.list_files(uuid))}
    origin = _read_origin(experiment)
    if registered_model.DATA_FILE in files:
        origin["data"] = _parse_marks(storage.read(uuid, registered_model.DATA_FILE))
    receipt = registered_model.Receipt(
        path="",
        machine="",
        checkpoint=uuid,
        files=files,
        config={"experiment": experiment.config, "hparams": trial.hparams, "seed": trial.seed},
        metrics=metrics,
        origin=origin,
    )
    return _register(shared, name, receipt, trial, alias=alias, note=note)


def register_path(
    shared: shared_state.SharedState,
    name: str,
    receipt: registered_model.Receipt,
    *,
    alias: str,
    note: str,
) -> registered_model.ModelVersion:
    """Registers an export, a run or a model's file by the receipt that a client has made.

    Raises:
        ConfigError: If the name or the alias can't be taken, or the receipt has no files.
    """
    _check_names(name, alias)
    if not (receipt.path and receipt.files):
        raise errors.ConfigError("receipt: its path or its files are missing; give both.")
    return _register(shared, name, receipt, None, alias=alias, note=note)


def promote(
    shared: shared_state.SharedState,
    name: str,
    version: int,
    alias: str,
    *,
    not_worse_than: str,
    metric_name: str,
    margin: float,
) -> registered_model.RegisteredModel:
    """Lets an alias name a version, if a rule allows it.

    Args:
        shared: State of the master.
        name: The model.
        version: The version.
        alias: The alias, new or not.
        not_worse_than: Alias or number of a version, compared over paired seeds; empty for no rule.
        metric_name: What is compared; the searched metric if empty.
        margin: By how much it may be worse.

    Raises:
        StateError: If the rule does not allow it.
        NotFoundError: If a version is not there.
    """
    registered_model.check_alias(alias)
    with shared.store.reading() as session:  # The trials of a search take a while.
        model = session.get_model(name)
        candidate, reason = model.find(str(version)), ""
        if not_worse_than:
            standing = model.find(not_worse_than)
            chosen = metric_name or _find_searched(candidate)
            reason = promotion_rule.check(session, candidate, standing, chosen, margin)
    with shared.condition:
        with shared.store.reading() as session:
            session.get_model(name).find(str(version))  # It may have been deleted meanwhile.
        move = registered_model.AliasMove(0, name, alias, candidate.version, reason, time.time())
        shared.write(lambda session: session.add_alias_move(move))
        with shared.store.reading() as session:
            return session.get_model(name)


def delete(
    shared: shared_state.SharedState, name: str, version: int, *, with_aliases: bool
) -> registered_model.ModelVersion:
    """Deletes a version: it can't be used any more, and its checkpoint may be deleted.

    Args:
        shared: State of the master.
        name: The model.
        version: The version.
        with_aliases: Whether aliases that name it go, too.

    Raises:
        NotFoundError: If it is not there.
        StateError: If an alias names it, and these stay.
    """
    with shared.condition:
        with shared.store.reading() as session:
            model = session.get_model(name)
        found = model.find(str(version))
        named = [alias for alias, number in model.aliases.items() if number == found.version]
        if named and not with_aliases:
            raise errors.StateError(
                f"{found.reference} can't be deleted: {', '.join(named)} names it. Promote another "
                "version first, or delete it with its aliases (--with-aliases)."
            )
        deleted = dataclasses.replace(found, is_deleted=True)
        shared.write(lambda session: session.update_model_version(deleted))
        return deleted


def _check_names(name: str, alias: str) -> None:
    registered_model.check_name(name)
    if alias:
        registered_model.check_alias(alias)


def _check_usable(found: checkpoint_lib.Checkpoint) -> None:
    if found.state is not checkpoint_lib.CheckpointState.COMPLETED:
        raise errors.CheckpointError(
            f"checkpoint {found.uuid}: it is {found.state.value}, so that it can't be registered. "
            "`quintain checkpoint list` shows others."
        )


def _register(
    shared: shared_state.SharedState,
    name: str,
    receipt: registered_model.Receipt,
    trial: trial_lib.TrialRecord | None,
    *,
    alias: str,
    note: str,
) -> registered_model.ModelVersion:
    record = registered_model.ModelVersion(
        **vars(receipt),
        id=0,
        name=name,
        version=0,
        sha256=registered_model.hash_names(receipt.files),
        trial_id=None if trial is None else trial.id,
        experiment_id=None if trial is None else trial.experiment_id,
        note=note,
        time=time.time(),
    )
    added: list[registered_model.ModelVersion] = []

    def write(session: session_lib.Session) -> None:
        if trial is not None:  # It may have been deleted while its files were read.
            _check_usable(session.get_checkpoint(receipt.checkpoint))
        added.append(session.add_model_version(record))
        if alias:
            session.add_alias_move(
                registered_model.AliasMove(0, name, alias, added[0].version, "", record.time)
            )

    with shared.condition:
        shared.write(write)
    return added[0]


def _parse_marks(data: bytes) -> dict[str, str]:
    try:
        return {str(path): str(mark) for path, mark in json.loads(data).items()}
    except (ValueError, AttributeError, RecursionError) as error:
        raise errors.CheckpointError(
            f"{registered_model.DATA_FILE}: can't be understood ({error}). It is the trial's own "
            "file of this name, or damaged; choose another checkpoint."
        ) from error


def _find_metrics(
    session: session_lib.Session,
    found: checkpoint_lib.Checkpoint,
    experiment: experiment_lib.Experiment,
) -> dict[str, Any]:
    """Returns what was measured at a checkpoint: all of its validation, or the searched metric."""
    group, total = metric.MetricGroup.VALIDATION, found.total_batches
    rows = session.list_metrics(found.trial_id, group=group, after_batches=total - 1)
    measured = [row.metrics for row in rows if row.total_batches == total]
    searched = experiment.config.get("searcher", {}).get("metric")
    own = {searched: found.metric} if searched and found.metric is not None else {}
    return {**own, **(measured[-1] if measured else {})}


def _read_origin(experiment: experiment_lib.Experiment) -> dict[str, Any]:
    origin = provenance.load(experiment.model_dir)
    return {} if origin is None else codec.to_plain(origin)


def _find_searched(version: registered_model.ModelVersion) -> str:
    searched = version.config.get("experiment", {}).get("searcher", {}).get("metric")
    return searched or "loss"
