"""Garbage collection of checkpoints, at an experiment's end and as it goes.

While an experiment runs, each trial keeps what its end would keep of it; its newest checkpoint,
from which it goes on and others are cloned; and, as long as it may go on, the one before, in case
that the newest turns out to be damaged.
"""

import dataclasses
import functools
import math
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Final

from quintain.master import entries, shared_state
from quintain.records.rows import checkpoint, deletion
from quintain.store import session as session_lib

_COMPLETED: Final = checkpoint.CheckpointState.COMPLETED
_DELETED: Final = checkpoint.CheckpointState.DELETED


def choose_deleted(
    checkpoints: Iterable[checkpoint.Checkpoint],
    *,
    save_experiment_best: int,
    save_trial_best: int,
    save_trial_latest: int,
    smaller_is_better: bool,
    protected: Collection[str] = (),
) -> list[checkpoint.Checkpoint]:
    """Returns the checkpoints that nobody asked to keep.

    The best are chosen among those with a metric, equal ones in the order of trials and batches.

    Args:
        checkpoints: All checkpoints of an experiment whose files are there. Those that a user gave
            to the store are not chosen, nor do they take the place of others.
        save_experiment_best: Best ones of the whole experiment to keep.
        save_trial_best: Best ones of each trial to keep.
        save_trial_latest: Newest ones of each trial to keep.
        smaller_is_better: Whether smaller metrics are better.
        protected: UUIDs to keep in any case, because others start from them.
    """
    ordered = sorted(
        (each for each in checkpoints if not each.is_adopted),
        key=lambda each: (each.trial_id, each.total_batches, each.uuid),
    )
    by_trial: dict[int, list[checkpoint.Checkpoint]] = {}
    for each in ordered:
        by_trial.setdefault(each.trial_id, []).append(each)
    kept = set(protected)
    kept.update(_best(ordered, save_experiment_best, smaller_is_better))
    for own in by_trial.values():
        kept.update(_best(own, save_trial_best, smaller_is_better))
        if save_trial_latest:
            kept.update(each.uuid for each in own[-save_trial_latest:])
    return [each for each in ordered if each.uuid not in kept]


def collect_ended(
    shared: shared_state.SharedState, entry: entries.Entry
) -> list[checkpoint.Checkpoint]:
    """Deletes the checkpoints of an ended experiment that nobody asked to keep; returns them.

    Args:
        shared: The master's state; its lock is held.
        entry: The experiment.
    """
    storage = entry.config.checkpoint_storage
    with shared.store.reading() as session:
        there = session.list_checkpoints(experiment_id=entry.id, states=[_COMPLETED])
    chosen = choose_deleted(
        there,
        save_experiment_best=storage.save_experiment_best,
        save_trial_best=storage.save_trial_best,
        save_trial_latest=storage.save_trial_latest,
        smaller_is_better=entry.config.searcher.smaller_is_better,
        protected=shared.find_protected(),
    )
    let_go(shared, {entry.id: chosen})
    return chosen


def collect_running(shared: shared_state.SharedState) -> None:
    """Deletes older checkpoints of trials that were saved since this was called last.

    Args:
        shared: The master's state; its lock is held.
    """
    if not shared.grown:
        return
    # It looks at all trials there are; most that save themselves have nothing older to let go.
    find_protected = functools.cache(shared.find_protected)
    chosen: dict[int, list[checkpoint.Checkpoint]] = {}
    for entry in list(shared.entries.values()):
        with shared.failures_contained(entry.id, "while its older checkpoints were chosen"):
            chosen[entry.id] = _choose_grown(shared, entry, find_protected)
    let_go(shared, chosen)
    shared.grown.clear()


def _choose_grown(
    shared: shared_state.SharedState, entry: entries.Entry, find_protected: Callable[[], set[str]]
) -> list[checkpoint.Checkpoint]:
    """Returns the checkpoints to delete, of the trials of one experiment that saved lately."""
    storage = entry.config.checkpoint_storage
    chosen: list[checkpoint.Checkpoint] = []
    for trial_id in sorted(shared.grown & entry.request_ids.keys()):
        with shared.store.reading() as session:
            there = session.list_checkpoints(trial_id=trial_id, states=[_COMPLETED])
        older = choose_deleted(
            there,
            save_experiment_best=0,
            # What is among the best of all is among as many of its trial.
            save_trial_best=max(storage.save_trial_best, storage.save_experiment_best),
            save_trial_latest=storage.save_trial_latest,
            smaller_is_better=entry.config.searcher.smaller_is_better,
            protected=_needed(entry, trial_id, there),
        )
        if older:
            chosen += [each for each in older if each.uuid not in find_protected()]
    return chosen


def _needed(
    entry: entries.Entry, trial_id: int, there: Iterable[checkpoint.Checkpoint]
) -> set[str]:
    """Returns the newest checkpoint of a trial, and the one before if the trial may go on."""
    machine = entry.machine_of(trial_id)
    known = {each.uuid for each in there}
    own = [uuid for uuid in machine.checkpoints if uuid in known]
    return set(own[-1:] if machine.state.is_terminal else own[-2:])


def let_go(
    shared: shared_state.SharedState, chosen: Mapping[int, Sequence[checkpoint.Checkpoint]]
) -> None:
    """Notes in one transaction that checkpoints are not there any more and are to be deleted.

    Args:
        shared: The master's state; its lock is held.
        chosen: Checkpoints by experiment.
    """
    if not any(chosen.values()):
        return

    def write(session: session_lib.Session) -> None:
        for experiment_id, records in chosen.items():
            address = shared.find_storage(session, experiment_id).address
            names = [each.uuid for each in records]
            kind = deletion.DeletionKind.CHECKPOINT
            session.add_deletions(shared.deletions.note(kind, address, names, experiment_id))
            for each in records:
                session.update_checkpoint(dataclasses.replace(each, state=_DELETED))

    shared.write(write)


def _best(
    ordered: Sequence[checkpoint.Checkpoint], count: int, smaller_is_better: bool
) -> list[str]:
    def rank(each: checkpoint.Checkpoint) -> float:
        metric = math.nan if each.metric is None else each.metric
        if math.isnan(metric):
            return math.inf
        return metric if smaller_is_better else -metric

    measured = [each for each in ordered if each.metric is not None]
    return [each.uuid for each in sorted(measured, key=rank)[:count]]
