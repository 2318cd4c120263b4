"""Queries of tables and charts of many trials: values without records.

An experiment may have tens of thousands of trials, for which building records would take longer
than all else.
"""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterable, Sequence
from typing import Any, Final, NamedTuple

from quintain.records import rows as kinds
from quintain.store import columns, curve_reading, queries

_NUM_ROWS: Final = 1000


class TrialCount(NamedTuple):
    """The trials of an experiment that are in one state."""

    experiment_id: int
    state: str
    num_trials: int
    min_metric: float | None
    """Smallest of their best searched metrics; None if there is none."""
    max_metric: float | None
    """The largest."""


class StateTotal(NamedTuple):
    """The rows of a table that are in one state."""

    table: str
    """`experiments`, `trials` or `checkpoints`."""
    state: str
    num_rows: int
    total: int
    """Restarts of trials; bytes of checkpoints that are not deleted; 0 for experiments."""


class TableReader(curve_reading.CurveReader):
    """Reads columns of trials and curves."""

    def read_trial_columns(self, experiment_id: int, names: Sequence[str]) -> dict[str, list[Any]]:
        """Returns columns of the trials of an experiment, in the order of their ids.

        Args:
            experiment_id: The experiment.
            names: Fields of trials, as the store has them: hyperparameters are JSON.
        """
        fields = columns.select(kinds.trial.TrialRecord, names)
        query = f"SELECT {fields} FROM trials WHERE experiment_id = :id ORDER BY id"
        return _read_columns(names, self._select(query, {"id": experiment_id}))

    def read_curve_columns(self, experiment_id: int) -> dict[str, list[Any]]:
        """Returns columns of the curves of results, in the order of trials.

        They are `trial_id`, `group`, `name`, `last`, `min` and `max`.
        """
        names = ("trial_id", "group", "name", "last", "min", "max")
        query = (
            f"SELECT {_quote(names)} FROM curves "
            'WHERE experiment_id = :id AND "group" != :system ORDER BY trial_id'
        )
        values = {"id": experiment_id, "system": kinds.metric.MetricGroup.SYSTEM.value}
        return _read_columns(names, self._select(query, values))

    def has_changed(self, experiment_id: int, after: int) -> bool:
        """Returns whether anything of an experiment changed after a change."""
        query = "SELECT 1 FROM changes WHERE id > :after AND experiment_id = :id LIMIT 1"
        return self._find_value(query, {"id": experiment_id, "after": after}) is not None

    def list_changed_trials(self, experiment_id: int, after: int) -> list[int]:
        """Returns the trials of an experiment that are new, or have changed, after a change."""
        query = (
            "SELECT DISTINCT trial_id FROM changes "
            "WHERE id > :after AND experiment_id = :id AND kind = :kind"
        )
        values = {"id": experiment_id, "after": after, "kind": kinds.change.ChangeKind.TRIAL.value}
        return [trial_id for (trial_id,) in self._select(query, values)]

    def list_packed_curves(
        self,
        experiment_id: int,
        *,
        names: Collection[tuple[kinds.metric.MetricGroup, str]] = (),
        trial_ids: Collection[int] = (),
    ) -> list[tuple[int, str, bytes]]:
        """Returns trial, `group/name` and points of curves, in the order of trials.

        Args:
            experiment_id: The experiment.
            names: Groups and names of metrics; empty for all.
            trial_ids: Trials; empty for all.
        """
        where = curve_reading.choose_curves(experiment_id, names, trial_ids)
        query = f"SELECT trial_id, \"group\" || '/' || name, num_points, points FROM curves {where}"
        rows = list(self._select(f"{query} ORDER BY trial_id", where.values))
        if all(
            len(row[3]) == kinds.curve.POINT_BYTES * kinds.curve.count_kept(row[2]) for row in rows
        ):
            return [(row[0], row[1], row[3]) for row in rows]
        # Some are damaged, and are made anew there.
        found = self._list_curves(where)
        return [(each.trial_id, f"{each.group.value}/{each.name}", each.points) for each in found]

    def count_own(
        self, experiment_id: int, states: Collection[kinds.states.TrialState] = ()
    ) -> int:
        """Returns how many trials an experiment has.

        Args:
            experiment_id: The experiment.
            states: Those in one of these states; empty for all.
        """
        where = queries.Where(experiment_id=experiment_id)
        where.add_any("state", states)
        return int(self._find_value(f"SELECT count(*) FROM trials {where}", where.values))

    def count_trials(self, experiment_ids: Collection[int]) -> list[TrialCount]:
        """Returns how many trials experiments have in which state, and between which metrics.

        Args:
            experiment_ids: The experiments; those without trials are left out.
        """
        listed = ", ".join(str(int(each)) for each in experiment_ids)
        # SQLite takes not-a-number for the largest.
        best = "CASE WHEN best_metric = 'NaN' THEN NULL ELSE best_metric END"
        query = (
            f"SELECT experiment_id, state, count(*), min({best}), max({best}) FROM trials "
            f"WHERE experiment_id IN ({listed or 'NULL'}) GROUP BY experiment_id, state"
        )
        return [TrialCount(*row) for row in self._select(query, {})]

    def count_states(self) -> list[StateTotal]:
        """Returns how many experiments, trials and checkpoints there are in which state."""
        sizes = "json_each_text(files::json)"
        if self._is_sqlite:  # One damaged row is no reason to count none.
            sizes = "json_each(CASE WHEN json_valid(files) THEN files ELSE '{}' END)"
        num_bytes = (
            "CASE WHEN state = 'DELETED' THEN 0 ELSE "
            f"(SELECT sum(CAST(value AS BIGINT)) FROM {sizes}) END"
        )
        totals = {"experiments": "0", "trials": "restarts", "checkpoints": num_bytes}
        return [
            StateTotal(table, state, num_rows, int(total or 0))
            for table, value in totals.items()
            for state, num_rows, total in self._select(
                f"SELECT state, count(*), sum({value}) FROM {table} GROUP BY state", {}
            )
        ]


def _quote(names: Iterable[str]) -> str:
    return ", ".join(f'"{name}"' for name in names)


def _read_columns(names: Sequence[str], rows: Iterable[Sequence[Any]]) -> dict[str, list[Any]]:
    columns: list[list[Any]] = [[] for _ in names]
    left = iter(rows)
    # Some at a time, so that few rows live at once: the garbage collector looks at all of them.
    while some := list(itertools.islice(left, _NUM_ROWS)):
        for column, values in zip(columns, zip(*some, strict=True), strict=True):
            column.extend(values)
    return dict(zip(names, columns, strict=True))
