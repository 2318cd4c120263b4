"""Reads what tables and charts of many trials show: values as they are kept, without records.

An experiment may have tens of thousands of trials, for which building records would take longer
than all else.
"""

from collections.abc import Collection, Iterable, Sequence
from typing import Any

from quintain.records import curve, metric, states
from quintain.store import curve_reading


class TableReader(curve_reading.CurveReader):
    """Reads columns of trials and curves."""

    def list_trial_values(self, experiment_id: int, names: Sequence[str]) -> list[Sequence[Any]]:
        """Returns columns of the trials of an experiment, in the order of their ids.

        Args:
            experiment_id: The experiment.
            names: The columns, as the store has them: hyperparameters are JSON.
        """
        listed = ", ".join(f'"{name}"' for name in names)
        query = f"SELECT {listed} FROM trials WHERE experiment_id = :id ORDER BY id"
        return list(self._select(query, {"id": experiment_id}))

    def list_curve_values(self, experiment_id: int) -> list[Sequence[Any]]:
        """Returns trial, group, name, last, min and max of the curves of results, by trial."""
        query = (
            'SELECT trial_id, "group", name, last, min, max FROM curves '
            'WHERE experiment_id = :id AND "group" != :system ORDER BY trial_id'
        )
        values = {"id": experiment_id, "system": metric.MetricGroup.SYSTEM.value}
        return list(self._select(query, values))

    def list_packed_curves(
        self,
        experiment_id: int,
        *,
        names: Collection[tuple[metric.MetricGroup, str]] = (),
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
        if all(len(row[3]) == curve.POINT_BYTES * curve.count_kept(row[2]) for row in rows):
            return [(row[0], row[1], row[3]) for row in rows]
        # Some are damaged, and are made anew there.
        found = self._list_curves(where)
        return [(each.trial_id, f"{each.group.value}/{each.name}", each.points) for each in found]

    def count_trials(self, experiment_ids: Iterable[int]) -> dict[int, dict[str, int]]:
        """Returns how many trials each experiment has in which state; those without any left out.

        Args:
            experiment_ids: The experiments.
        """
        listed = ", ".join(str(int(each)) for each in experiment_ids)
        query = (
            "SELECT experiment_id, state, count(*) FROM trials "
            f"WHERE experiment_id IN ({listed}) GROUP BY experiment_id, state"
        )
        counts: dict[int, dict[str, int]] = {}
        for experiment_id, state, count in self._select(query, {}):
            counts.setdefault(experiment_id, {})[states.TrialState(state).value] = count
        return counts
