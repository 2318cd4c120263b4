"""Columns of the lists of experiments, trials and checkpoints."""

from __future__ import annotations

import collections
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from quintain.cli import output
from quintain.config import provenance
from quintain.records import rows as kinds
from quintain.records import views
from quintain.records.views import metric_order, trial_names


def format_hparams(hparams: Mapping[str, Any]) -> str:
    """Returns hyperparameters by their short names in one line."""
    return output.format_value(_shorten(hparams))


def _shorten(hparams: Mapping[str, Any]) -> dict[str, Any]:
    flat = provenance.flatten(hparams)
    return {name: flat[path] for path, name in trial_names.shorten_paths(flat).items()}


TRIAL_COLUMNS: Final[tuple[output.Column[kinds.trial.TrialRecord], ...]] = (
    output.Column("id", lambda row: row.id),
    output.Column("experiment", lambda row: row.experiment_id),
    output.Column("state", lambda row: row.state.value),
    output.Column("batches", lambda row: row.total_batches),
    output.Column("best", lambda row: row.best_metric),
    output.Column("latest", lambda row: row.latest_metric),
    output.Column("restarts", lambda row: row.restarts, is_optional=True),
    output.Column(
        "further seed",
        lambda row: row.request_id.partition(views.seeds.REPLICATE)[2],
        is_optional=True,
    ),
    output.Column("hparams", lambda row: row.hparams, format_hparams, can_shrink=True),
    output.Column("reason", lambda row: row.reason, can_shrink=True, is_optional=True),
)

OWN_TRIAL_COLUMNS: Final = (TRIAL_COLUMNS[0], *TRIAL_COLUMNS[2:])
"""Columns of trials of one experiment."""

CHECKPOINT_COLUMNS: Final[tuple[output.Column[kinds.checkpoint.Checkpoint], ...]] = (
    output.Column("uuid", lambda row: row.uuid),
    output.Column("experiment", lambda row: row.experiment_id),
    output.Column("trial", lambda row: row.trial_id),
    output.Column("batches", lambda row: row.total_batches),
    output.Column("metric", lambda row: row.metric),
    output.Column("state", lambda row: row.state.value),
    output.Column("size", lambda row: row.num_bytes, output.format_bytes),
    output.Column("saved", lambda row: row.time, output.format_time),
)


def name_of(experiment: kinds.experiment.Experiment) -> str:
    """Returns the name of an experiment, or the first line of its description."""
    return str(experiment.config.get("name") or experiment.description.partition("\n")[0])


def is_usable(checkpoint: kinds.checkpoint.Checkpoint) -> bool:
    """Returns whether the files of a checkpoint are there."""
    return checkpoint.state is kinds.checkpoint.CheckpointState.COMPLETED


def count_states(trials: Iterable[kinds.trial.TrialRecord]) -> str:
    """Returns how many trials are in which state.

    Example:
        >>> count_states([])
        ''
    """
    counts = collections.Counter(one.state for one in trials)
    return ", ".join(
        f"{counts[state]} {state.value.lower()}"
        for state in kinds.states.TrialState
        if counts[state]
    )


def find_objectives(searcher: Mapping[str, Any]) -> dict[str, bool]:
    """Returns the metrics that decide in a search, and whether smaller values are better."""
    return {
        one["metric"]: one.get("smaller_is_better", True)
        for one in (searcher, *searcher.get("further_objectives", ()))
        if one.get("metric")
    }


def describe_search(searcher: Mapping[str, Any]) -> str:
    """Returns the method of a search and the metrics that it goes by.

    Example:
        >>> describe_search({"name": "random", "metric": "accuracy"})
        'random by accuracy'
    """
    return f"{searcher.get('name')} by {', '.join(find_objectives(searcher))}"


def describe_best(best: kinds.trial.TrialRecord, searcher: Mapping[str, Any]) -> str:
    """Returns the best metric and whose it is."""
    value = output.format_value(best.best_metric)
    return f"{searcher.get('metric')} {value} (trial {best.id})"


def to_best_row(
    best: kinds.trial.TrialRecord,
    checkpoints: Sequence[kinds.checkpoint.Checkpoint],
    searcher: Mapping[str, Any],
) -> dict[str, Any]:
    """Returns a trial with the checkpoint of its best validation, or else its newest one.

    Args:
        best: The trial.
        checkpoints: Its checkpoints.
        searcher: The section of this name of the experiment's config.
    """
    usable = [one for one in checkpoints if is_usable(one)]
    ranked = metric_order.rank(
        usable, lambda one: one.metric, smaller_is_better=searcher.get("smaller_is_better", True)
    )
    newest = sorted(usable, key=lambda one: one.total_batches)
    chosen = ranked[0] if ranked else newest[-1] if newest else None
    return {
        "trial": best.id,
        "metric_name": searcher.get("metric", "metric"),
        "metric": best.best_metric,
        "batches": best.total_batches if chosen is None else chosen.total_batches,
        "hparams": best.hparams,
        "checkpoint": None if chosen is None else chosen.uuid,
        "checkpoint_metric": None if chosen is None else chosen.metric,
    }


def describe_standing(
    standing: views.seeds.Standing, searcher: Mapping[str, Any]
) -> dict[str, str]:
    """Returns what several seeds say about a setting, as fields; none if there is one."""
    if standing.low is None or standing.high is None:
        return {}
    mean, low, high = (
        views.seeds.format_metric(value, searcher)
        for value in (standing.mean, standing.low, standing.high)
    )
    fields = {f"mean of {standing.num_seeds} seeds": f"{mean} (95 %: {low} to {high})"}
    if standing.lead is not None:
        fields[f"than trial {standing.lead.trial_id}"] = standing.lead.text
    return fields


def format_metric(value: float | None, searcher: Mapping[str, Any]) -> str:
    """Returns a value of the searched metric in the format that the experiment has for it.

    Example:
        >>> format_metric(0.96666, {"metric": "accuracy", "formats": {"accuracy": ".1%"}})
        '96.7%'
    """
    form = (searcher.get("formats") or {}).get(searcher.get("metric"))
    return output.format_value(value) if value is None or form is None else format(value, form)


def list_best_columns(searcher: Mapping[str, Any]) -> Sequence[output.Column[dict[str, Any]]]:
    """Returns the columns of what `to_best_row` returns, and of the mean over several seeds."""

    def of_several(name: str) -> output.Column[dict[str, Any]]:
        return output.Column(
            name,
            lambda row: None if row["low"] is None else row[name],
            lambda value: format_metric(value, searcher),
            is_optional=True,
        )

    return (
        output.Column("trial", lambda row: row["trial"]),
        output.Column(
            "metric", lambda row: row["metric"], lambda value: format_metric(value, searcher)
        ),
        *map(of_several, ("mean", "low", "high")),
        output.Column("batches", lambda row: row["batches"]),
        output.Column("hparams", lambda row: row["hparams"], format_hparams, can_shrink=True),
        output.Column("checkpoint", lambda row: row["checkpoint"]),
    )


def flatten_hparams(hparams: Mapping[str, Any]) -> list[str]:
    """Returns `name: value` for each hyperparameter by its short name.

    Example:
        >>> flatten_hparams({"a": {"b": 1}, "c": "x"})
        ['b: 1', 'c: x']
    """
    return [f"{name}: {output.format_value(value)}" for name, value in _shorten(hparams).items()]
