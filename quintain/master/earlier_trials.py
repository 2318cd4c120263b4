"""Earlier trials that a new search learns from, as its first event keeps them."""

import dataclasses
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from quintain import errors
from quintain.records.config import experiment_spec, searcher_config
from quintain.records.rows import codec, experiment, metric, states, trial
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


def build_rewound(
    session: reading.Reader,
    owner: experiment.Experiment,
    to_trial: int,
    *,
    searcher: str = "",
    space: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """Returns the config of a search that goes on from a trial of another one.

    It shares the trials up to that one which have ended with a result. Unless the other one has no
    finalists with further seeds, these are settled anew for the trials that are left.

    Args:
        session: Reads the trials.
        owner: The other experiment.
        to_trial: The last trial that is shared.
        searcher: Another search method; the same one if empty. Fields that it lacks are left out.
        space: Other hyperparameters; the same ones if None.

    Raises:
        ConfigError: If there is no such method.
        StateError: If the trial is not one of the experiment, or has no result.
    """
    trials = {each.id: each for each in _list_trials(session, owner)}
    if to_trial not in trials:
        there = f" It has trials {min(trials)} to {max(trials)}." if trials else ""
        raise errors.StateError(f"Experiment {owner.id} has no trial {to_trial}.{there}")
    last = trials[to_trial]
    usable = [
        number
        for number, each in trials.items()
        if number <= to_trial and _is_usable(each) and _is_validated(session, each)
    ]
    if to_trial not in usable:
        before = f"trial {usable[-1]}" if usable else "another experiment"
        raise errors.StateError(
            f"Trial {to_trial} is {last.state.value} and has no result to share. Rewind to "
            f"{before} instead."
        )
    former: dict[str, Any] = {**owner.config["searcher"], "initial_points": []}
    if (former.get("replicate") or {}).get("top"):
        del former["replicate"]  # Fewer trials are left, for which it is settled anew.
    if searcher and searcher != former["name"]:
        former = _change_method(former, searcher)
    changed: dict[str, Any] = {"searcher": {**former, "inherited": usable}}
    if space is not None:
        changed["hyperparameters"] = dict(space)
    return {**owner.config, **changed}


def _change_method(former: Mapping[str, Any], name: str) -> dict[str, Any]:
    """Returns the fields of a search that another method has, too."""
    try:
        kind = searcher_config.SEARCHERS[name]
    except KeyError:
        raise errors.ConfigError(
            f"searcher.name: {searcher_config.explain_unknown(name)}"
        ) from None
    known = {field.name for field in dataclasses.fields(kind)}
    return {**{key: value for key, value in former.items() if key in known}, "name": name}


def _list_trials(session: reading.Reader, owner: experiment.Experiment) -> list[trial.TrialRecord]:
    """Returns the trials of an experiment, those first that it shares with others."""
    inherited = owner.config.get("searcher", {}).get("inherited", ())
    return [*_get_trials(session, inherited), *session.list_trials(owner.id)]


def _is_usable(record: trial.TrialRecord) -> bool:
    """Returns whether a trial has ended by itself, and trained a point of its own."""
    has_failed = record.state is states.TrialState.ERROR
    return record.state.is_terminal and not has_failed and seeds.REPLICATE not in record.request_id


def _is_validated(session: reading.Reader, record: trial.TrialRecord) -> bool:
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
        usable = filter(_is_usable, _list_trials(session, owner))
        yield _Source(path, owner, tuple(usable))


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
