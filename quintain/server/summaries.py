"""What lists show of experiments: the records without what is large."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from quintain.records import codec
from quintain.records import experiment as experiment_lib

if TYPE_CHECKING:
    from quintain.store import reading

_SEARCHER_FIELDS: Final = ("name", "metric", "smaller_is_better", "max_trials")
_CONFIG_FIELDS: Final = ("name", "resources", "records_per_epoch")


def build(
    session: "reading.Reader", experiments: Sequence[experiment_lib.Experiment]
) -> list[dict[str, Any]]:
    """Returns summaries of experiments, as plain data.

    They are the fields of `Experiment`, except that `original_config` is left out, `config` has
    `name`, `resources`, `records_per_epoch` and the searcher's `name`, `metric`,
    `smaller_is_better` and `max_trials` only, and `num_trials` has the numbers of trials by state.
    """
    counts = session.count_trials([one.id for one in experiments]) if experiments else {}
    return [_summarise(one, counts.get(one.id, {})) for one in experiments]


def _summarise(
    experiment: experiment_lib.Experiment, num_trials: Mapping[str, int]
) -> dict[str, Any]:
    config = _pick(experiment.config, _CONFIG_FIELDS)
    config["searcher"] = _pick(experiment.config.get("searcher", {}), _SEARCHER_FIELDS)
    fields = {**vars(experiment), "config": config, "num_trials": num_trials}
    del fields["original_config"]
    return dict(codec.to_plain(fields))


def _pick(fields: Mapping[str, Any], names: Sequence[str]) -> dict[str, Any]:
    return {name: fields[name] for name in names if name in fields}
