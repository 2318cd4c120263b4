"""State of a search method: rungs with their trials, and copied trials.

It is found by giving the method the stored events again, as a restarted master does. What was found
is kept for a while, so that only new events are given.
"""

import math
import threading
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final

from quintain.master.machine import experiment_machine
from quintain.records.config import experiment_spec
from quintain.records.rows import states
from quintain.records.rows import trial as trial_lib
from quintain.search import rungs

if TYPE_CHECKING:
    from quintain.store import reading

_MOST_KEPT: Final = 2
"""Searches that are kept; one of ten thousand trials takes some ten megabytes."""


class SearchViews:
    """Shows what searches know."""

    def __init__(self) -> None:
        self._kept: dict[int, tuple[int, experiment_machine.ExperimentMachine]] = {}
        self._lock = threading.Lock()

    def build(self, session: "reading.Reader", experiment_id: int) -> dict[str, Any]:
        """Returns what the search of an experiment knows, as plain data.

        Its keys are `kind`, the name of the method; `brackets`, each with `rungs` of `units`,
        `batches` and `trials`: number, metric or None, and `promoted`, `stopped`, `waiting`,
        `running` or, in the last rung, `done`; and `lineage`: copied trials, and what of.

        Raises:
            NotFoundError: If there is no such experiment.
        """
        experiment = session.get_experiment(experiment_id)
        trials = {one.request_id: one for one in session.list_trials(experiment_id)}
        with self._lock:
            machine = self._replay(session, experiment_id)
            searcher = experiment.config.get("searcher", {})
            sign = 1 if searcher.get("smaller_is_better", True) else -1
            method = None if machine is None else machine.search.method
            unit = 1 if machine is None else machine.config.searcher.batches_per_unit
            return {
                "kind": searcher.get("name", ""),
                "brackets": [
                    {"rungs": list(_list_rungs(bracket, trials, unit, sign))}
                    for bracket in ([] if method is None else method.list_brackets())
                ],
                "lineage": [
                    [one.id, one.parent_trial_id]
                    for one in trials.values()
                    if one.parent_trial_id is not None
                ],
            }

    def _replay(
        self, session: "reading.Reader", experiment_id: int
    ) -> experiment_machine.ExperimentMachine | None:
        last, machine = self._kept.pop(experiment_id, (0, None))
        for number, event in session.list_numbered_events(experiment_id, after=last):
            if machine is None:
                machine = experiment_machine.ExperimentMachine(
                    experiment_spec.parse(event["config"])
                )
            machine.apply(event)
            last = number
        if machine is not None:
            self._kept[experiment_id] = last, machine
            while len(self._kept) > _MOST_KEPT:
                del self._kept[next(iter(self._kept))]
        return machine


def _list_rungs(
    bracket: Sequence[rungs.Rung],
    trials: dict[str, trial_lib.TrialRecord],
    unit: int,
    sign: int,
) -> Iterator[dict[str, Any]]:
    for rung in bracket:
        is_last = rung is bracket[-1]
        found: list[list[Any]] = []
        for request_id, metric in zip(rung.request_ids, rung.metrics, strict=True):
            record = trials.get(request_id)
            if record is not None:
                shown = metric * sign if math.isfinite(metric) else None
                found.append([record.id, shown, _find_state(rung, record, is_last=is_last)])
        found += [
            [record.id, None, "running"]
            for request_id in sorted(rung.outstanding)
            if (record := trials.get(request_id)) is not None
        ]
        yield {"units": rung.length, "batches": rung.length * unit, "trials": found}


def _find_state(rung: rungs.Rung, record: trial_lib.TrialRecord, *, is_last: bool) -> str:
    if is_last:
        return "done"
    if record.request_id in rung.promoted:
        return "promoted"
    return "waiting" if record.state is states.TrialState.ACTIVE else "stopped"
