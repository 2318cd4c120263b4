"""Summaries of experiments for lists: records without their large fields."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from quintain.records.rows import codec
from quintain.records.rows import experiment as experiment_lib

if TYPE_CHECKING:
    from quintain.store import reading, table_reading

_SEARCHER_FIELDS: Final = ("name", "metric", "smaller_is_better", "formats", "max_trials")
_CONFIG_FIELDS: Final = ("name", "project", "resources", "records_per_epoch")


def build(
    session: "reading.Reader", experiments: Sequence[experiment_lib.Experiment]
) -> list[dict[str, Any]]:
    """Returns summaries of experiments, as plain data.

    They are the fields of `Experiment`, except that `original_config` is left out, `config` has
    `name`, `project`, `resources`, `records_per_epoch` and the searcher's `name`, `metric`,
    `smaller_is_better`, `formats` and `max_trials` only, `num_trials` has the numbers of trials by
    state, and `best_metric` is the best value of the searched metric, or None.
    """
    counts: dict[int, list[table_reading.TrialCount]] = {one.id: [] for one in experiments}
    for count in session.count_trials(list(counts)):
        counts[count.experiment_id].append(count)
    return [_summarise(one, counts[one.id]) for one in experiments]


def _summarise(
    experiment: experiment_lib.Experiment, counts: Sequence["table_reading.TrialCount"]
) -> dict[str, Any]:
    searcher = experiment.config.get("searcher", {})
    config = _pick(experiment.config, _CONFIG_FIELDS)
    config["searcher"] = _pick(searcher, _SEARCHER_FIELDS)
    if searcher.get("smaller_is_better", True):
        best = min((it for one in counts if (it := one.min_metric) is not None), default=None)
    else:
        best = max((it for one in counts if (it := one.max_metric) is not None), default=None)
    num_trials = {one.state: one.num_trials for one in counts}
    added = {"config": config, "num_trials": num_trials, "best_metric": best}
    fields = {**vars(experiment), **added}
    del fields["original_config"]
    return dict(codec.to_plain(fields))


def _pick(fields: Mapping[str, Any], names: Sequence[str]) -> dict[str, Any]:
    return {name: fields[name] for name in names if name in fields}
