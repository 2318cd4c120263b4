"""What can be done in one transaction of the store."""

import functools
import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, Final, TypeVar

import sqlalchemy as sa
from sqlalchemy import exc

from quintain import errors
from quintain.records import (
    change,
    checkpoint,
    curve,
    deletion,
    experiment,
    log,
    metric,
    run,
    states,
    trial,
)
from quintain.store import columns, queries, reading, schema

NUM_KEPT_CHANGES: Final = 100_000
"""Newest changes that are kept. Whoever has seen fewer begins anew."""

_PRUNING_STEP: Final = 1000

R = TypeVar("R")


class Session(reading.Reader):
    """Reads and writes records; all of it, or nothing, is kept."""

    def __init__(self, connection: sa.Connection) -> None:
        """Stores the connection, in whose transaction everything happens."""
        is_sqlite = connection.dialect.name == "sqlite"

        def select(query: str, values: Mapping[str, Any]) -> Iterable[Sequence[Any]]:
            if is_sqlite:  # Its driver takes the query as it is, which saves most of the time.
                return connection.exec_driver_sql(query, dict(values))
            return connection.execute(sa.text(query), values)

        super().__init__(select, is_sqlite=is_sqlite, failure=exc.OperationalError)
        self._connection = connection
        # What `Change.ref` is of each thing that has changed.
        self._changes: dict[
            tuple[change.ChangeKind, int, int | None, str | None], str | int | None
        ] = {}
        self._owners: dict[int, int] = {}

    # Experiments

    def add_experiment(self, record: experiment.Experiment) -> experiment.Experiment:
        """Stores a new experiment and returns it; one whose id is 0 gets the next id."""
        added = self._add(record)
        self._note(change.ChangeKind.EXPERIMENT, added.id)
        return added

    def update_experiment(self, record: experiment.Experiment) -> None:
        """Replaces the experiment of the same id.

        Raises:
            NotFoundError: If there is none.
            StateError: If its row is damaged; what is left of it stays.
        """
        if isinstance(record, experiment.DamagedExperiment):
            raise errors.StateError(f"Experiment {record.id}: {record.reason}")
        self._update(record, "id")
        self._note(change.ChangeKind.EXPERIMENT, record.id)

    def delete_experiment(self, experiment_id: int) -> None:
        """Deletes an experiment with all that belongs to it.

        Raises:
            NotFoundError: If there is none of this id.
        """
        self.get_experiment(experiment_id)
        table = schema.EXPERIMENTS
        self._connection.execute(sa.delete(table).where(table.c.id == experiment_id))
        self._note(change.ChangeKind.EXPERIMENT_DELETED, experiment_id)

    # Trials

    def add_trial(self, record: trial.TrialRecord) -> trial.TrialRecord:
        """Stores a new trial and returns it; one whose id is 0 gets the next id."""
        added = self._add(record)
        self._note_trial(added)
        return added

    def update_trial(self, record: trial.TrialRecord) -> None:
        """Replaces the trial of the same id.

        Raises:
            NotFoundError: If there is none.
        """
        self._update(record, "id")
        self._note_trial(record)

    def _note_trial(self, record: trial.TrialRecord) -> None:
        self._owners[record.id] = record.experiment_id
        self._note(change.ChangeKind.TRIAL, record.experiment_id, record.id)

    def end_trials(
        self, experiment_id: int, state: states.TrialState, reason: str, end_time: float
    ) -> None:
        """Ends those trials of an experiment that have not ended, without reading them."""
        table = schema.TRIALS
        going = [each.value for each in states.TrialState if not each.is_terminal]
        has_not_ended = (table.c.experiment_id == experiment_id) & table.c.state.in_(going)
        for trial_id in self._connection.scalars(sa.select(table.c.id).where(has_not_ended)).all():
            self._note(change.ChangeKind.TRIAL, experiment_id, trial_id)
        self._connection.execute(
            sa.update(table)
            .where(has_not_ended)
            .values(state=state.value, reason=reason, end_time=end_time)
        )

    # Events

    def add_event(self, experiment_id: int, event: dict[str, Any]) -> int:
        """Stores an event of an experiment and returns its number, which grows with time."""
        result = self._connection.execute(
            sa.insert(schema.EVENTS),
            {"experiment_id": experiment_id, "event": columns.to_json(event)},
        )
        return int(_only_key(result))

    # Metrics

    def add_metrics(self, rows: Sequence[metric.MetricRow]) -> None:
        """Stores metrics. Many rows at once are much faster than one at a time."""
        first_id = self._find_next_id("metrics")
        self._add_all(rows)
        for trial_id in dict.fromkeys(row.trial_id for row in rows):
            owner = self._find_owner(trial_id)
            self._note(change.ChangeKind.METRICS, owner, trial_id, first_id)
        for trial_id, points in curve.collect(rows).items():
            self._extend_curves(trial_id, points)

    def delete_metrics_after(self, trial_id: int, total_batches: int) -> None:
        """Deletes the metrics of more batches, those of single batches included: a roll back.

        What was measured of the machine stays.
        """
        where = queries.Where(trial_id=trial_id)
        where.add("total_batches > :total", total=total_batches)
        self._connection.execute(sa.text(f"DELETE FROM batch_metrics {where}"), where.values)
        where.add('"group" != :system', system=metric.MetricGroup.SYSTEM.value)
        deleted = self._connection.execute(sa.text(f"DELETE FROM metrics {where}"), where.values)
        if deleted.rowcount:
            owner = self._find_owner(trial_id)
            self._note(change.ChangeKind.CUT, owner, trial_id, total_batches)
            self.rebuild_curves(trial_id)

    def rebuild_curves(self, trial_id: int) -> None:
        """Makes the curves of a trial anew from its metrics; damaged rows of these are left out."""
        table = schema.CURVES
        self._connection.execute(sa.delete(table).where(table.c.trial_id == trial_id))
        rows = self._list_rows(trial_id)
        if rows:
            self._save_curves(curve.build(self._find_owner(trial_id), rows))

    def _extend_curves(self, trial_id: int, points: dict[curve.Metric, list[curve.Point]]) -> None:
        """Adds points, whose metrics are stored, to the curves of a trial."""
        where = queries.Where(trial_id=trial_id)
        where.add_any("group", {group for group, _ in points})
        known = {(each.group, each.name): each for each in self._list(curve.Curve, where, "")}
        owner = self._find_owner(trial_id)
        extended = []
        for which, new in points.items():
            former = known.get(which) or curve.Curve(owner, trial_id, *which)
            if not (self._check_whole(former) and former.may_extend(new)):
                self.rebuild_curves(trial_id)
                return
            extended.append(former.extend(new))
        self._save_curves(extended)

    def _save_curves(self, curves: Sequence[curve.Curve]) -> None:
        if curves:  # An empty list would be one row of nothing.
            self._connection.execute(_SAVE_CURVE, [columns.to_row(each) for each in curves])

    def add_batch_metrics(
        self, trial_id: int, total_batches: int, batch_metrics: Sequence[dict[str, Any]]
    ) -> None:
        """Stores the metrics of each batch of a workload.

        Args:
            trial_id: The trial.
            total_batches: Batches that it had trained on after the last of them.
            batch_metrics: One mapping for each batch.
        """
        self._connection.execute(
            sa.insert(schema.BATCH_METRICS),
            {
                "trial_id": trial_id,
                "total_batches": total_batches,
                "batch_metrics": columns.to_json(list(batch_metrics)),
            },
        )

    # Checkpoints

    def add_checkpoint(self, record: checkpoint.Checkpoint) -> checkpoint.Checkpoint:
        """Stores a new checkpoint and returns it."""
        added = self._add(record)
        self._note_checkpoint(added)
        return added

    def update_checkpoint(self, record: checkpoint.Checkpoint) -> None:
        """Replaces the checkpoint of the same UUID.

        Raises:
            NotFoundError: If there is none.
        """
        self._update(record, "uuid")
        self._note_checkpoint(record)

    def _note_checkpoint(self, record: checkpoint.Checkpoint) -> None:
        kind = change.ChangeKind.CHECKPOINT
        self._note(kind, record.experiment_id, record.trial_id, record.uuid)

    # Logs

    def add_logs(self, rows: Sequence[log.LogRow]) -> None:
        """Stores lines; they get their numbers in this order."""
        first_id = self._find_next_id("logs")
        self._add_all(rows)
        for trial_id in dict.fromkeys(row.trial_id for row in rows):
            owner = self._find_owner(trial_id)
            self._note(change.ChangeKind.LOGS, owner, trial_id, first_id)

    # Processes

    def save_run(self, record: run.Run) -> None:
        """Stores a process, or replaces the one of the same launch; its span begins."""
        table = schema.RUNS
        self._connection.execute(sa.delete(table).where(table.c.launch_id == record.launch_id))
        self._connection.execute(sa.insert(table), columns.to_row(record))
        span = run.Span(
            record.launch_id,
            record.trial_id,
            record.experiment_id,
            record.slots,
            record.start_time,
        )
        self._connection.execute(_BEGIN_SPAN, columns.to_row(span))
        self._note(change.ChangeKind.RUN, record.experiment_id, record.trial_id)

    def delete_run(self, launch_id: str) -> None:
        """Forgets a process, whose span ends; one that is not known is no error."""
        table, spans = schema.RUNS, schema.SPANS
        is_this = table.c.launch_id == launch_id
        found = self._connection.execute(sa.select(table).where(is_this)).first()
        if found is None:
            return
        self._connection.execute(sa.delete(table).where(is_this))
        self._connection.execute(
            sa.update(spans).where(spans.c.launch_id == launch_id).values(end_time=time.time())
        )
        self._note(change.ChangeKind.RUN, found.experiment_id, found.trial_id)

    # The home, and what is to be deleted in it

    def set_home_id(self, home_id: str) -> None:
        """Notes the home whose database this is."""
        self._connection.execute(sa.delete(schema.HOME))
        self._connection.execute(sa.insert(schema.HOME), {"home_id": home_id})

    def add_deletions(self, records: Sequence[deletion.Deletion]) -> None:
        """Notes directories that are to be deleted."""
        self._add_all(records)

    def remove_deletions(self, ids: Collection[int]) -> None:
        """Forgets deletions that are done."""
        table = schema.DELETIONS
        self._connection.execute(sa.delete(table).where(table.c.id.in_(list(ids))))

    # Changes

    def write_changes(self) -> bool:
        """Stores what has changed, at the end of a transaction; returns whether anything has."""
        if not self._changes:
            return False
        rows = [
            {"kind": kind.value, "experiment_id": owner, "trial_id": trial_id, "ref": ref}
            for (kind, owner, trial_id, _), ref in self._changes.items()
        ]
        self._connection.execute(sa.insert(schema.CHANGES), rows)
        newest = self._find_next_id("changes") - 1
        if newest // _PRUNING_STEP > (newest - len(rows)) // _PRUNING_STEP:
            table = schema.CHANGES
            self._connection.execute(
                sa.delete(table).where(table.c.id <= newest - NUM_KEPT_CHANGES)
            )
        return True

    def _note(
        self,
        kind: change.ChangeKind,
        experiment_id: int,
        trial_id: int | None = None,
        ref: str | int | None = None,
    ) -> None:
        """Notes a change; of several that begin at a number, the first is kept."""
        key = (kind, experiment_id, trial_id, ref if isinstance(ref, str) else None)
        former = self._changes.get(key)
        if not (isinstance(ref, int) and isinstance(former, int) and former < ref):
            self._changes[key] = ref

    def _find_owner(self, trial_id: int) -> int:
        """Returns the experiment of a trial."""
        if trial_id not in self._owners:
            query = "SELECT experiment_id FROM trials WHERE id = :trial_id"
            self._owners[trial_id] = self._find_value(query, {"trial_id": trial_id})
        return self._owners[trial_id]

    def _find_next_id(self, table: str) -> int:
        return int(self._find_value(f"SELECT max(id) FROM {table}") or 0) + 1

    # All kinds

    def _add(self, record: R) -> R:
        table = _find_table(type(record))
        result = self._connection.execute(sa.insert(table), columns.to_row(record))
        return self._get(type(record), next(iter(table.primary_key)).name, _only_key(result))

    def _add_all(self, records: Sequence[Any]) -> None:
        if records:
            table = _find_table(type(records[0]))
            self._connection.execute(sa.insert(table), [columns.to_row(row) for row in records])

    def _update(self, record: Any, key: str) -> None:
        table = _find_table(type(record))
        row = columns.to_row(record)
        value = row.pop(key)
        query = _build_update(table, key)
        result = self._connection.execute(query, {**row, "value_of_key": value})
        if not result.rowcount:
            raise self._missing(type(record), key, value)


_SAVE_CURVE: Final = sa.insert(schema.CURVES).prefix_with("OR REPLACE", dialect="sqlite")
_BEGIN_SPAN: Final = sa.insert(schema.SPANS).prefix_with("OR IGNORE", dialect="sqlite")


@functools.cache
def _build_update(table: sa.Table, key: str) -> sa.Update:
    return sa.update(table).where(table.c[key] == sa.bindparam("value_of_key"))


def _find_table(kind: type[Any]) -> sa.Table:
    return schema.METADATA.tables[columns.TABLES[kind]]


def _only_key(result: sa.CursorResult[Any]) -> Any:
    keys = result.inserted_primary_key
    if keys is None:
        raise errors.StoreError("The database gave no key to a new row.")
    return keys[0]
