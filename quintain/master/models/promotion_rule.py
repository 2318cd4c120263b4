"""Non-inferiority test of two versions of a model over trials of equal seeds."""

import math
import statistics
from collections.abc import Mapping

from quintain import errors
from quintain.records.rows import registered_model
from quintain.records.views import seeds as seeds_lib
from quintain.records.views import trial_table
from quintain.store import reading


def check(
    session: reading.Reader,
    candidate: registered_model.ModelVersion,
    standing: registered_model.ModelVersion,
    metric_name: str,
    margin: float,
) -> str:
    """Checks that a version is not worse than another one; returns what was found, for people.

    Of each version it takes the trials of its experiment that have its hyperparameters. Trials of
    the two with equal seeds are pairs; their best values are compared.

    Args:
        session: Reads.
        candidate: The version that is tested.
        standing: The one that it is compared with.
        metric_name: A validation metric, or `GROUP/NAME`.
        margin: By how much it may be worse, in units of the metric.

    Raises:
        ConfigError: If the metric has no direction, or the margin is negative.
        StateError: If there are no pairs, or it may be worse.

    Source:
        Student's t over paired differences, the lower end of the one-sided 95 % interval.
    """
    if not margin >= 0:
        raise errors.ConfigError(f"margin: got {margin}, expected a number >= 0.")
    ours, is_smaller_better = _read_values(session, candidate, metric_name)
    theirs, _ = _read_values(session, standing, metric_name)
    gains = [
        (theirs[seed] - ours[seed]) if is_smaller_better else (ours[seed] - theirs[seed])
        for seed in sorted(ours.keys() & theirs.keys())
    ]
    names = f"{candidate.reference} and {standing.reference}"
    if len(gains) < 2:
        raise errors.StateError(
            f"{names}: got {len(gains)} seeds with trials of both that have {metric_name!r}, "
            "expected at least 2. Train both with the same seeds: fork the experiment, whose "
            "reproducibility.experiment_seed stays, with the hyperparameters of the other."
        )
    mean, least = statistics.fmean(gains), find_least_gain(gains)
    found = (
        f"{metric_name} over {len(gains)} paired seeds improves on {standing.reference} by "
        f"{mean:.4g} on average, and by at least {least:.4g} with 95 % confidence"
    )
    if not least >= -margin:
        raise errors.StateError(
            f"{candidate.reference} may be worse than {standing.reference}: {found}; the margin is "
            f"{margin:g}. Train more seeds of both, or allow a margin (--margin)."
        )
    return f"{found} (margin {margin:g})"


def find_least_gain(gains: list[float]) -> float:
    """Returns the lower end of the one-sided 95 % interval of a mean of at least two values.

    Example:
        >>> round(find_least_gain([0.1, 0.2, 0.3]), 3)
        0.031
    """
    quantile = seeds_lib.find_quantile(len(gains) - 1, 0.95)
    error = statistics.stdev(gains) / math.sqrt(len(gains))
    return statistics.fmean(gains) - quantile * error


def _read_values(
    session: reading.Reader, version: registered_model.ModelVersion, metric_name: str
) -> tuple[Mapping[int, float], bool]:
    """Returns the best value of the metric by seed, and whether smaller values are better."""
    if version.trial_id is None or version.experiment_id is None:
        raise errors.StateError(
            f"{version.reference} is no checkpoint of a trial, so that there are no paired seeds. "
            "Promote it without a rule, or register a trial."
        )
    config = session.get_experiment(version.experiment_id).config
    best = trial_table.find_best_statistic(metric_name, config.get("searcher", {}))
    if not best:
        raise errors.ConfigError(
            f"metric: got {metric_name!r}, of which nobody has said whether smaller values are "
            "better. Take the searched metric, or declare it in `searcher.directions`."
        )
    hparams = session.get_trial(version.trial_id).hparams
    trials = session.list_trials(version.experiment_id)
    seeds = {each.id: each.seed for each in trials if each.hparams == hparams}
    group, _, name = metric_name.rpartition("/")
    curves = session.read_curve_columns(version.experiment_id)
    values = {}
    for place, trial_id in enumerate(curves["trial_id"]):
        is_wanted = (curves["group"][place], curves["name"][place]) == (group or "validation", name)
        if trial_id in seeds and is_wanted:
            values[seeds[trial_id]] = float(curves[best][place])
    return values, best == "min"
