"""Queries of curves; a damaged curve is rebuilt from its metrics."""

from __future__ import annotations

import logging
from collections.abc import Collection

from quintain.records import rows as kinds
from quintain.store import columns, queries

logger = logging.getLogger(__name__)


class CurveReader(queries.Queries):
    """Reads curves."""

    def list_curves(
        self,
        experiment_id: int,
        *,
        names: Collection[kinds.curve.Metric] = (),
        trial_ids: Collection[int] = (),
        points: bool = True,
    ) -> list[kinds.curve.Curve]:
        """Returns the curves of an experiment in the order of trials.

        Args:
            experiment_id: The experiment.
            names: Groups and names of metrics to list; empty for all.
            trial_ids: Trials to list; empty for all.
            points: Whether their points are read, too.
        """
        where = choose_curves(experiment_id, names, trial_ids)
        return self._list_curves(where, points=points)

    def _list_curves(self, where: queries.Where, *, points: bool = True) -> list[kinds.curve.Curve]:
        order = 'ORDER BY trial_id, "group", name'
        if not points:
            where.values["none"] = b""
            return self._list(kinds.curve.Curve, where, order, {"points": ":none"})
        found = self._list(kinds.curve.Curve, where, order)
        return [each if self._check_whole(each) else self._rebuild_curve(each) for each in found]

    def _check_whole(self, found: kinds.curve.Curve) -> bool:
        """Returns whether a curve is whole, and says so if it is damaged."""
        if not found.is_whole:
            logger.warning(
                "The points of %s/%s of trial %d are damaged in the database; they are made anew "
                "from its metrics.",
                found.group.value,
                found.name,
                found.trial_id,
            )
        return found.is_whole

    def _rebuild_curve(self, damaged: kinds.curve.Curve) -> kinds.curve.Curve:
        built = kinds.curve.build(damaged.experiment_id, self._list_rows(damaged.trial_id))
        return next(
            (each for each in built if each.key == damaged.key), kinds.curve.Curve(*damaged.key)
        )

    def _list_rows(self, trial_id: int) -> list[kinds.metric.MetricRow]:
        """Returns all metrics of a trial that can be read, in the order they were stored."""
        where = queries.Where(trial_id=trial_id)
        try:
            return self._list(kinds.metric.MetricRow, where, "ORDER BY id")
        except self._damage as error:
            self._check_damage(error)
        query = f"SELECT id FROM metrics {where} ORDER BY id"
        rows = []
        for (row_id,) in list(self._select(query, where.values)):
            try:
                rows += self._list(kinds.metric.MetricRow, queries.Where(id=row_id), "")
            except self._damage as error:
                self._check_damage(error)
                logger.warning("Metrics of trial %d are damaged: %s", trial_id, error)
        return rows


def choose_curves(
    experiment_id: int,
    names: Collection[tuple[kinds.metric.MetricGroup, str]],
    trial_ids: Collection[int],
) -> queries.Where:
    """Returns the conditions of curves; `CurveReader.list_curves` has the arguments."""
    where = queries.Where(experiment_id=experiment_id)
    if trial_ids:  # They may be more than a query can have values.
        where.add(f"trial_id IN ({', '.join(str(int(each)) for each in trial_ids)})")
    if names:
        wanted = []
        for number, (group, name) in enumerate(names):
            wanted.append(f'("group" = :group{number} AND name = :name{number})')
            where.values |= {f"group{number}": str(group), f"name{number}": columns.to_text(name)}
        where.add(f"({' OR '.join(wanted)})")
    return where
