"""Session: reads and writes in one transaction of the store."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Collection, Sequence
from typing import Any, Final, TypeVar

from quintain import errors
from quintain.records import rows as kinds
from quintain.records import team
from quintain.store import columns, queries, reading, statements

NUM_KEPT_CHANGES: Final = 100_000
"""Newest changes that are kept. Whoever has seen fewer begins anew."""

_PRUNING_STEP: Final = 1000

R = TypeVar("R")


class Session(reading.Reader):
    """Reads and writes records; all of it, or nothing, is kept."""

    def __init__(self, runner: statements.Runner) -> None:
        super().__init__(runner)
        # What `Change.ref` is of each thing that has changed.
        self._changes: dict[
            tuple[kinds.change.ChangeKind, int, int | None, str | None], str | int | None
        ] = {}
        self._owners: dict[int, int] = {}

    # Experiments

    def add_experiment(self, record: kinds.experiment.Experiment) -> kinds.experiment.Experiment:
        """Stores a new experiment and returns it; one whose id is 0 gets the next id."""
        added = self._add(record)
        self._note(kinds.change.ChangeKind.EXPERIMENT, added.id)
        return added

    def update_experiment(self, record: kinds.experiment.Experiment) -> None:
        """Replaces the experiment of the same id.

        Raises:
            NotFoundError: If there is none.
            StateError: If its row is damaged; what is left of it stays.
        """
        if isinstance(record, kinds.experiment.DamagedExperiment):
            raise errors.StateError(f"Experiment {record.id}: {record.reason}")
        self._update(record)
        self._note(kinds.change.ChangeKind.EXPERIMENT, record.id)

    def delete_experiment(self, experiment_id: int) -> None:
        """Deletes an experiment with all that belongs to it.

        Raises:
            NotFoundError: If there is none of this id.
        """
        self.get_experiment(experiment_id)
        self._run("DELETE FROM experiments WHERE id = :id", id=experiment_id)
        self._note(kinds.change.ChangeKind.EXPERIMENT_DELETED, experiment_id)

    # Trials

    def add_trial(self, record: kinds.trial.TrialRecord) -> kinds.trial.TrialRecord:
        """Stores a new trial and returns it; one whose id is 0 gets the next id."""
        added = self._add(record)
        self._note_trial(added)
        return added

    def update_trial(self, record: kinds.trial.TrialRecord) -> None:
        """Replaces the trial of the same id; its note, which is the user's, stays.

        Raises:
            NotFoundError: If there is none.
        """
        self._update(record, kept=("note",))
        self._note_trial(record)

    def set_trial_note(self, trial_id: int, note: str) -> kinds.trial.TrialRecord:
        """Replaces the note of a trial and returns the trial.

        Raises:
            NotFoundError: If there is none of this id.
        """
        text = columns.to_text(note)
        self._run("UPDATE trials SET note = :note WHERE id = :id", id=trial_id, note=text)
        record = self.get_trial(trial_id)
        self._note_trial(record)
        return record

    def _note_trial(self, record: kinds.trial.TrialRecord) -> None:
        self._owners[record.id] = record.experiment_id
        self._note(kinds.change.ChangeKind.TRIAL, record.experiment_id, record.id)

    def end_trials(
        self, experiment_id: int, state: kinds.states.TrialState, reason: str, end_time: float
    ) -> None:
        """Ends those trials of an experiment that have not ended, without reading them."""
        where = queries.Where(experiment_id=experiment_id)
        where.add_any("state", [each for each in kinds.states.TrialState if not each.is_terminal])
        for (trial_id,) in list(self._select(f"SELECT id FROM trials {where}", where.values)):
            self._note(kinds.change.ChangeKind.TRIAL, experiment_id, trial_id)
        self._run(
            f"UPDATE trials SET state = :last, reason = :reason, end_time = :end_time {where}",
            **where.values,
            last=state.value,
            reason=columns.to_text(reason),
            end_time=end_time,
        )

    # Events

    def add_event(self, experiment_id: int, event: dict[str, Any]) -> int:
        """Stores an event of an experiment and returns its number, which grows with time."""
        row = {"experiment_id": experiment_id, "event": columns.to_json(event)}
        return int(self._runner.insert("events", row, "id"))

    # Metrics

    def add_metrics(self, rows: Sequence[kinds.metric.MetricRow]) -> None:
        """Stores metrics. Many rows at once are much faster than one at a time."""
        self._add_all(rows, kinds.change.ChangeKind.METRICS)
        for trial_id, points in kinds.curve.collect(rows).items():
            self._extend_curves(trial_id, points)

    def delete_metrics_after(self, trial_id: int, total_batches: int) -> None:
        """Deletes the metrics of more batches, those of single batches included: a roll back.

        What was measured of the machine stays.
        """
        where = queries.Where(trial_id=trial_id)
        where.add("total_batches > :total", total=total_batches)
        self._run(f"DELETE FROM batch_metrics {where}", **where.values)
        where.add('"group" != :system', system=kinds.metric.MetricGroup.SYSTEM.value)
        if self._run(f"DELETE FROM metrics {where}", **where.values):
            owner = self._find_owner(trial_id)
            self._note(kinds.change.ChangeKind.CUT, owner, trial_id, total_batches)
            self.rebuild_curves(trial_id)

    def rebuild_curves(self, trial_id: int) -> None:
        """Makes the curves of a trial anew from its metrics; damaged rows of these are left out."""
        self._run("DELETE FROM curves WHERE trial_id = :trial_id", trial_id=trial_id)
        rows = self._list_rows(trial_id)
        if rows:
            self._save_curves(kinds.curve.build(self._find_owner(trial_id), rows))

    def _extend_curves(
        self, trial_id: int, points: dict[kinds.curve.Metric, list[kinds.curve.Point]]
    ) -> None:
        """Adds points, whose metrics are stored, to the curves of a trial."""
        # As the names are stored: under others, those that are there would not be found.
        points = {(group, columns.to_text(name)): new for (group, name), new in points.items()}
        where = queries.Where(trial_id=trial_id)
        where.add_any("group", {group for group, _ in points})
        known = {(each.group, each.name): each for each in self._list(kinds.curve.Curve, where, "")}
        owner = self._find_owner(trial_id)
        extended = []
        for which, new in points.items():
            former = known.get(which) or kinds.curve.Curve(owner, trial_id, *which)
            if not (self._check_whole(former) and former.may_extend(new)):
                self.rebuild_curves(trial_id)
                return
            extended.append(former.extend(new))
        self._save_curves(extended)

    def _save_curves(self, curves: Sequence[kinds.curve.Curve]) -> None:
        self._runner.run_all(
            statements.save(kinds.curve.Curve), [self._to_row(each) for each in curves]
        )

    def add_batch_metrics(
        self, trial_id: int, total_batches: int, batch_metrics: Sequence[dict[str, Any]]
    ) -> None:
        """Stores the metrics of each batch of a workload.

        Args:
            trial_id: The trial.
            total_batches: Batches that it had trained on after the last of them.
            batch_metrics: One mapping for each batch.
        """
        texts = columns.to_json(list(batch_metrics))
        row = {"trial_id": trial_id, "total_batches": total_batches, "batch_metrics": texts}
        self._runner.insert_all("batch_metrics", [row])

    # Checkpoints

    def add_checkpoint(self, record: kinds.checkpoint.Checkpoint) -> kinds.checkpoint.Checkpoint:
        """Stores a new checkpoint and returns it."""
        added = self._add(record)
        self._note_checkpoint(added)
        return added

    def update_checkpoint(self, record: kinds.checkpoint.Checkpoint) -> None:
        """Replaces the checkpoint of the same UUID.

        Raises:
            NotFoundError: If there is none.
        """
        self._update(record)
        self._note_checkpoint(record)

    def _note_checkpoint(self, record: kinds.checkpoint.Checkpoint) -> None:
        kind = kinds.change.ChangeKind.CHECKPOINT
        self._note(kind, record.experiment_id, record.trial_id, record.uuid)

    # Logs

    def add_logs(self, rows: Sequence[kinds.log.LogRow]) -> None:
        """Stores lines; they get their numbers in this order."""
        self._add_all(rows, kinds.change.ChangeKind.LOGS)

    # Processes

    def save_launch(self, record: kinds.launch.Launch) -> None:
        """Stores a process, or replaces the one of the same launch; its span begins."""
        self._run(statements.save(kinds.launch.Launch), **self._to_row(record))
        span = kinds.launch.Span(
            record.launch_id,
            record.trial_id,
            record.experiment_id,
            record.slots,
            record.start_time,
        )
        self._run(statements.add_new(kinds.launch.Span), **self._to_row(span))
        self._note(kinds.change.ChangeKind.RUN, record.experiment_id, record.trial_id)

    def delete_launch(self, launch_id: str) -> None:
        """Forgets a process, whose span ends; one that is not known is no error."""
        query = "DELETE FROM runs WHERE launch_id = :launch_id RETURNING experiment_id, trial_id"
        for experiment_id, trial_id in list(self._select(query, {"launch_id": launch_id})):
            self._run(
                "UPDATE spans SET end_time = :now WHERE launch_id = :launch_id",
                launch_id=launch_id,
                now=time.time(),
            )
            self._note(kinds.change.ChangeKind.RUN, experiment_id, trial_id)

    # Machines

    def save_node(self, record: kinds.node.KnownNode) -> None:
        """Stores what is known of a machine, or replaces it."""
        self._run(statements.save(kinds.node.KnownNode), **self._to_row(record))

    # Users

    def add_audit(self, entry: team.AuditEntry) -> team.AuditEntry:
        """Stores an entry of the audit log and returns it."""
        return self._add(entry)

    def save_grant(self, record: team.Grant) -> None:
        """Stores the role of a user over a project, or replaces it."""
        self._run(statements.save(team.Grant), **self._to_row(record))

    def delete_grants(self, user_name: str, projects: Collection[str]) -> None:
        """Deletes the roles of a user over projects."""
        query = "DELETE FROM grants WHERE user_name = :user_name AND project = :project"
        self._runner.run_all(query, [{"user_name": user_name, "project": one} for one in projects])

    # Loggers

    def save_sent_metrics(self, record: kinds.sent_metrics.SentMetrics) -> None:
        """Notes how far the metrics of a trial were sent to a logger."""
        self._run(statements.save(kinds.sent_metrics.SentMetrics), **self._to_row(record))

    # The home, and what is to be deleted in it

    def set_home_id(self, home_id: str) -> None:
        """Notes the home whose database this is."""
        self._run("DELETE FROM home")
        self._run("INSERT INTO home (home_id) VALUES (:home_id)", home_id=home_id)

    def add_deletions(self, records: Sequence[kinds.deletion.Deletion]) -> None:
        """Notes directories that are to be deleted."""
        self._add_all(records)

    def remove_deletions(self, ids: Collection[int]) -> None:
        """Forgets deletions that are done."""
        self._runner.run_all("DELETE FROM deletions WHERE id = :id", [{"id": each} for each in ids])

    # Registered models

    def add_model_version(
        self, record: kinds.registered_model.ModelVersion
    ) -> kinds.registered_model.ModelVersion:
        """Stores a version of a model under the next number of its model, and returns it."""
        query = "SELECT max(version) FROM model_versions WHERE name = :name"
        newest = self._find_value(query, {"name": record.name}) or 0
        self._note(kinds.change.ChangeKind.MODEL, kinds.change.NO_EXPERIMENT)
        return self._add(dataclasses.replace(record, version=newest + 1))

    def update_model_version(self, record: kinds.registered_model.ModelVersion) -> None:
        """Replaces the version of the same `id`.

        Raises:
            NotFoundError: If there is none.
        """
        self._update(record)
        self._note(kinds.change.ChangeKind.MODEL, kinds.change.NO_EXPERIMENT)

    def add_alias_move(self, record: kinds.registered_model.AliasMove) -> None:
        """Lets an alias name a version from now on."""
        self._add(record)
        self._note(kinds.change.ChangeKind.MODEL, kinds.change.NO_EXPERIMENT)

    # Changes

    def write_changes(self) -> bool:
        """Stores what has changed, at the end of a transaction; returns whether anything has."""
        if not self._changes:
            return False
        rows = [
            {"kind": kind.value, "experiment_id": owner, "trial_id": trial_id, "ref": ref}
            for (kind, owner, trial_id, _), ref in self._changes.items()
        ]
        self._runner.insert_all("changes", rows[:-1])
        newest = int(self._runner.insert("changes", rows[-1], "id"))
        if newest // _PRUNING_STEP > (newest - len(rows)) // _PRUNING_STEP:
            self._run("DELETE FROM changes WHERE id <= :last", last=newest - NUM_KEPT_CHANGES)
        return True

    def _note(
        self,
        kind: kinds.change.ChangeKind,
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

    # All kinds

    def _run(self, query: str, **values: Any) -> int:
        """Runs a statement; returns how many rows it changed."""
        return int(self._runner.run(query, values).rowcount)

    def _add(self, record: R) -> R:
        """Stores a record and returns it, with the next number if its `id` is 0."""
        kind: Any = type(record)
        (key,) = statements.find_keys(kind)
        row = self._to_row(record)
        value = self._runner.insert(columns.TABLES[kind.__name__], row, key)
        if key in row:
            return record
        fields = {name: getattr(record, name) for name in columns.list_names(kind)}
        added: R = kind(**{**fields, key: value})
        return added

    def _add_all(self, records: Sequence[Any], kind: kinds.change.ChangeKind | None = None) -> None:
        """Stores records of one kind; those of trials are noted as changes from the first on."""
        if not records:
            return
        first, *rows = [self._to_row(record) for record in records]
        table = columns.TABLES[type(records[0]).__name__]
        first_id = self._runner.insert(table, first, "id")
        self._runner.insert_all(table, rows)
        if kind is not None:
            for trial_id in dict.fromkeys(record.trial_id for record in records):
                self._note(kind, self._find_owner(trial_id), trial_id, first_id)

    def _update(self, record: Any, kept: tuple[str, ...] = ()) -> None:
        kind: Any = type(record)
        if not self._run(statements.update(kind, kept), **self._to_row(record)):
            (key,) = statements.find_keys(kind)
            raise self._missing(kind, key, getattr(record, key))

    def _to_row(self, record: Any) -> dict[str, Any]:
        row = columns.to_row(record)
        if self._is_sqlite:
            for name, value in row.items():
                if value != value:
                    row[name] = statements.NOT_A_NUMBER
        return row
