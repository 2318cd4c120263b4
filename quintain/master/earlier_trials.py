"""Earlier trials that a new search learns from, as its first event keeps them."""

import dataclasses
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from quintain import errors
from quintain.records.config import experiment_spec
from quintain.records.rows import codec, experiment, metric, trial
from quintain.records.views import seeds
from quintain.search import space as space_lib
from quintain.store import reading
from quintain.store import store as store_lib


@dataclasses.dataclass(frozen=True)
class _Source:
    """Trials that one field of a config names."""

    path: str
    owner: experiment.Experiment
    trials: tuple[trial.TrialRecord, ...]


def find(store: store_lib.Store, config: experiment_spec.ExperimentSpec) -> dict[str, Any]:
    """Returns what the event `start` of an experiment says about earlier trials.

    Its keys are `history`, the trials that have ended with a result, each once; and `note`, a line
    for the log. Both are missing where the config names no earlier trials.

    Raises:
        ConfigError: If it names what there is not, what was measured by another metric, or values
            that the space does not have.
    """
    searcher = config.searcher
    if not (searcher.inherited or searcher.learn_from):
        return {}
    space = space_lib.Space.parse(config.hyperparameters)
    history: dict[int, dict[str, Any]] = {}
    misfits: set[int] = set()
    with store.reading() as session:
        for source in _list_sources(session, config):
            _check_metric(source, config)
            for record in source.trials:
                if record.id in history or record.id in misfits:
                    continue
                results = _read_results(session, record, config)
                if not results:
                    continue
                hparams, problems = space.accept_point(record.hparams)
                if problems and not searcher.skip_misfits:
                    name, why = problems[0]
                    raise errors.ConfigError(
                        f"{source.path}: trial {record.id} of experiment {record.experiment_id} "
                        f"does not fit: hyperparameters.{name}: {why}. Widen the space, or leave "
                        "such trials out with searcher.skip_misfits=true."
                    )
                if problems:
                    misfits.add(record.id)
                else:
                    history[record.id] = {
                        "name": f"known-{record.id}",
                        "hparams": hparams,
                        **results,
                    }
    if not history:
        outside = f" outside the space: {len(misfits)}" if misfits else ""
        raise errors.ConfigError(
            "searcher.learn_from: no trial of these experiments has ended with a result of "
            f"{searcher.metric!r} in this space{outside}. Wait for one, or leave it out."
        )
    note = f"The search learns from {len(history)} earlier trials"
    note += f"; {len(misfits)} outside its space are left out." if misfits else "."
    return {"history": list(history.values()), "note": note}


def list_ended(
    session: reading.Reader, owner: experiment.Experiment
) -> tuple[trial.TrialRecord, ...]:
    """Returns the ended trials of an experiment, the inherited ones first; no further seeds."""
    inherited = owner.config.get("searcher", {}).get("inherited", ())
    records = [*_get_trials(session, inherited), *session.list_trials(owner.id)]
    return tuple(
        each
        for each in records
        if each.state.is_terminal and seeds.REPLICATE not in each.request_id
    )


def has_result(session: reading.Reader, record: trial.TrialRecord) -> bool:
    """Returns whether a trial was validated."""
    return bool(session.list_metrics(record.id, group=metric.MetricGroup.VALIDATION))


def _get_trials(session: reading.Reader, ids: Iterable[int]) -> list[trial.TrialRecord]:
    wanted = list(ids)
    return session.list_trials(ids=wanted) if wanted else []


def _list_sources(
    session: reading.Reader, config: experiment_spec.ExperimentSpec
) -> Iterator[_Source]:
    path = "searcher.inherited"
    by_owner: dict[int, list[trial.TrialRecord]] = {}
    found = _get_trials(session, config.searcher.inherited)
    if missing := set(config.searcher.inherited) - {each.id for each in found}:
        raise errors.ConfigError(
            f"{path}: trial {min(missing)} is not there any more. Rewind another experiment."
        )
    for record in found:
        by_owner.setdefault(record.experiment_id, []).append(record)
    for number, records in by_owner.items():
        yield _Source(path, session.get_experiment(number), tuple(records))
    for index, number in enumerate(config.searcher.learn_from):
        path = f"searcher.learn_from[{index}]"
        try:
            owner = session.get_experiment(number)
        except errors.NotFoundError:
            raise errors.ConfigError(
                f"{path}: there is no experiment {number}. `quintain experiment list` names them."
            ) from None
        yield _Source(path, owner, list_ended(session, owner))


def _check_metric(source: _Source, config: experiment_spec.ExperimentSpec) -> None:
    former: Mapping[str, Any] = source.owner.config.get("searcher", {})
    wanted = config.searcher
    for name in ("metric", "smaller_is_better"):
        before, now = former.get(name), getattr(wanted, name)
        if before != now:
            raise errors.ConfigError(
                f"{source.path}: experiment {source.owner.id} has searcher.{name}="
                f"{errors.show(before)}, expected {errors.show(now)} as here. Search by the same "
                "metric, or leave it out."
            )


def _read_results(
    session: reading.Reader, record: trial.TrialRecord, config: experiment_spec.ExperimentSpec
) -> dict[str, Any]:
    """Returns the metrics of a trial by batches; empty if one that decides was not measured."""
    objectives = getattr(config.searcher, "further_objectives", ())
    rows: dict[int, dict[str, Any]] = {}
    for row in session.list_metrics(record.id, group=metric.MetricGroup.VALIDATION):
        if all(name in row.metrics for name in (config.searcher.metric, *_names(objectives))):
            rows[row.total_batches] = row.metrics
    if not rows:
        return {}
    last = rows[max(rows)]
    return {
        "results": [
            [batches, codec.to_plain(row[config.searcher.metric])] for batches, row in rows.items()
        ],
        "further": [codec.to_plain(last[name]) for name in _names(objectives)],
    }


def _names(objectives: Iterable[Any]) -> list[str]:
    return [each.metric for each in objectives]
