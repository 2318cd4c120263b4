"""Which checkpoints of an experiment are kept at its end."""

import math
from collections.abc import Collection, Iterable, Sequence

from quintain.records import checkpoint


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
        checkpoints: All checkpoints of an experiment whose files are there.
        save_experiment_best: Best ones of the whole experiment to keep.
        save_trial_best: Best ones of each trial to keep.
        save_trial_latest: Newest ones of each trial to keep.
        smaller_is_better: Whether smaller metrics are better.
        protected: UUIDs to keep in any case, because others start from them.
    """
    ordered = sorted(checkpoints, key=lambda each: (each.trial_id, each.total_batches, each.uuid))
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
