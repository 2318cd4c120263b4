"""What can be done in one transaction of the store."""

from collections.abc import Collection, Sequence
from typing import Any, Final, TypeVar

import sqlalchemy as sa
from sqlalchemy import exc

from quintain import errors
from quintain.records import checkpoint, deletion, experiment, log, metric, run, states, trial
from quintain.store import schema

R = TypeVar("R")

_DAMAGE: Final = (ValueError, TypeError, AttributeError, KeyError, exc.OperationalError)
"""What reading a value raises that nobody of this package has written; see `_check_damage`."""


class Session:
    """Reads and writes records; all of it, or nothing, is kept."""

    def __init__(self, connection: sa.Connection) -> None:
        """Stores the connection, in whose transaction everything happens."""
        self._connection = connection

    # Experiments

    def add_experiment(self, record: experiment.Experiment) -> experiment.Experiment:
        """Stores a new experiment and returns it; one whose id is 0 gets the next id."""
        return self._add(record)

    def update_experiment(self, record: experiment.Experiment) -> None:
        """Replaces the experiment of the same id.

        Raises:
            NotFoundError: If there is none.
            StateError: If its row is damaged; what is left of it stays.
        """
        if isinstance(record, experiment.DamagedExperiment):
            raise errors.StateError(f"Experiment {record.id}: {record.reason}")
        self._update(record, "experiment", "id")

    def get_experiment(self, experiment_id: int) -> experiment.Experiment:
        """Returns an experiment; one whose row can't be read is a `DamagedExperiment`.

        Raises:
            NotFoundError: If there is none of this id.
        """
        try:
            return self._get(experiment.Experiment, "experiment", "id", experiment_id)
        except _DAMAGE as error:
            _check_damage(error)
            return self._describe_damaged(experiment_id, error)

    def list_experiments(
        self,
        *,
        include_archived: bool = False,
        states: Collection[states.ExperimentState] = (),
        labels: Collection[str] = (),
    ) -> list[experiment.Experiment]:
        """Returns experiments in the order of their ids; damaged ones as `get_experiment` does.

        Args:
            include_archived: Whether archived ones are listed, too.
            states: States to list; empty for all.
            labels: Labels that an experiment must have, all of them.
        """
        table = schema.EXPERIMENTS
        query = sa.select(table).order_by(table.c.id)
        if not include_archived:
            query = query.where(table.c.is_archived.is_(False))
        if states:
            query = query.where(table.c.state.in_(list(states)))
        try:
            found = self._list(experiment.Experiment, query)
        except _DAMAGE as error:
            _check_damage(error)
            # One by one, so that the others are there.
            ids = self._connection.scalars(query.with_only_columns(table.c.id)).all()
            found = [self.get_experiment(each) for each in ids]
        return [record for record in found if set(labels) <= set(record.labels)]

    def _describe_damaged(self, experiment_id: int, error: Exception) -> experiment.Experiment:
        """Returns what stands for an experiment whose row can't be read."""
        return experiment.DamagedExperiment(
            id=experiment_id,
            state=states.ExperimentState.ERROR,
            config={"name": "(damaged)"},
            original_config="",
            model_dir="",
            reason=f"Its row in the database is damaged and stays as it is ({error}).",
        )

    def delete_experiment(self, experiment_id: int) -> None:
        """Deletes an experiment with all that belongs to it.

        Raises:
            NotFoundError: If there is none of this id.
        """
        self.get_experiment(experiment_id)
        table = schema.EXPERIMENTS
        self._connection.execute(sa.delete(table).where(table.c.id == experiment_id))

    def get_last_experiment_id(self) -> int:
        """Returns the largest number that an experiment has, or ever had; 0 if none had one.

        Numbers of deleted experiments are only known to SQLite.
        """
        known = self._connection.scalar(sa.select(sa.func.max(schema.EXPERIMENTS.c.id)))
        if self._connection.dialect.name == "sqlite":
            table = sa.table("sqlite_sequence", sa.column("name"), sa.column("seq"))
            query = sa.select(table.c.seq).where(table.c.name == schema.EXPERIMENTS.name)
            known = max(known or 0, self._connection.scalar(query) or 0)
        return known or 0

    # Trials

    def add_trial(self, record: trial.TrialRecord) -> trial.TrialRecord:
        """Stores a new trial and returns it; one whose id is 0 gets the next id."""
        return self._add(record)

    def update_trial(self, record: trial.TrialRecord) -> None:
        """Replaces the trial of the same id.

        Raises:
            NotFoundError: If there is none.
        """
        self._update(record, "trial", "id")

    def get_trial(self, trial_id: int) -> trial.TrialRecord:
        """Returns a trial.

        Raises:
            NotFoundError: If there is none of this id.
        """
        return self._get(trial.TrialRecord, "trial", "id", trial_id)

    def end_trials(
        self, experiment_id: int, state: states.TrialState, reason: str, end_time: float
    ) -> None:
        """Ends those trials of an experiment that have not ended, without reading them."""
        table = schema.TRIALS
        going = [each for each in states.TrialState if not each.is_terminal]
        self._connection.execute(
            sa.update(table)
            .where(table.c.experiment_id == experiment_id, table.c.state.in_(going))
            .values(state=state, reason=reason, end_time=end_time)
        )

    def list_trials(
        self, experiment_id: int | None = None, *, states: Collection[states.TrialState] = ()
    ) -> list[trial.TrialRecord]:
        """Returns trials in the order of their ids.

        Args:
            experiment_id: The experiment; None for all.
            states: States to list; empty for all.
        """
        table = schema.TRIALS
        query = sa.select(table).order_by(table.c.id)
        if experiment_id is not None:
            query = query.where(table.c.experiment_id == experiment_id)
        if states:
            query = query.where(table.c.state.in_(list(states)))
        return self._list(trial.TrialRecord, query)

    # Events

    def add_event(self, experiment_id: int, event: dict[str, Any]) -> int:
        """Stores an event of an experiment and returns its number, which grows with time."""
        result = self._connection.execute(
            sa.insert(schema.EVENTS), {"experiment_id": experiment_id, "event": event}
        )
        return int(_only_key(result))

    def list_events(self, experiment_id: int, *, after: int = 0) -> list[dict[str, Any]]:
        """Returns the events of an experiment in the order in which they were stored.

        Args:
            experiment_id: The experiment.
            after: Number of an event; only later ones are listed.
        """
        table = schema.EVENTS
        query = (
            sa.select(table.c.event)
            .where(table.c.experiment_id == experiment_id, table.c.id > after)
            .order_by(table.c.id)
        )
        return list(self._connection.scalars(query))

    # Metrics

    def add_metrics(self, rows: Sequence[metric.MetricRow]) -> None:
        """Stores metrics. Many rows at once are much faster than one at a time."""
        self._add_all(rows)

    def list_metrics(
        self, trial_id: int, *, group: metric.MetricGroup | None = None, after_batches: int = -1
    ) -> list[metric.MetricRow]:
        """Returns the metrics of a trial in the order of batches.

        Args:
            trial_id: The trial.
            group: Training or validation; None for both.
            after_batches: Only metrics of more batches are listed.
        """
        table = schema.METRICS
        query = (
            sa.select(table)
            .where(table.c.trial_id == trial_id, table.c.total_batches > after_batches)
            .order_by(table.c.total_batches, table.c.id)
        )
        if group is not None:
            query = query.where(table.c.group == group)
        return self._list(metric.MetricRow, query)

    def delete_metrics_after(self, trial_id: int, total_batches: int) -> None:
        """Deletes the metrics of more batches, those of single batches included: a roll back."""
        for table in (schema.METRICS, schema.BATCH_METRICS):
            self._connection.execute(
                sa.delete(table).where(
                    table.c.trial_id == trial_id, table.c.total_batches > total_batches
                )
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
        self._connection.execute(
            sa.insert(schema.BATCH_METRICS),
            {
                "trial_id": trial_id,
                "total_batches": total_batches,
                "batch_metrics": list(batch_metrics),
            },
        )

    def list_batch_metrics(
        self, trial_id: int, *, after_batches: int = -1
    ) -> list[tuple[int, list[dict[str, Any]]]]:
        """Returns what `add_batch_metrics` stored of a trial, in the order of batches.

        Args:
            trial_id: The trial.
            after_batches: Only workloads that ended after more batches are listed.
        """
        table = schema.BATCH_METRICS
        query = (
            sa.select(table.c.total_batches, table.c.batch_metrics)
            .where(table.c.trial_id == trial_id, table.c.total_batches > after_batches)
            .order_by(table.c.total_batches, table.c.id)
        )
        return [(total, batches) for total, batches in self._connection.execute(query)]

    # Checkpoints

    def add_checkpoint(self, record: checkpoint.Checkpoint) -> checkpoint.Checkpoint:
        """Stores a new checkpoint and returns it."""
        return self._add(record)

    def update_checkpoint(self, record: checkpoint.Checkpoint) -> None:
        """Replaces the checkpoint of the same UUID.

        Raises:
            NotFoundError: If there is none.
        """
        self._update(record, "checkpoint", "uuid")

    def get_checkpoint(self, uuid: str) -> checkpoint.Checkpoint:
        """Returns a checkpoint.

        Raises:
            NotFoundError: If there is none of this UUID.
        """
        return self._get(checkpoint.Checkpoint, "checkpoint", "uuid", uuid)

    def list_checkpoints(
        self,
        *,
        experiment_id: int | None = None,
        trial_id: int | None = None,
        states: Collection[checkpoint.CheckpointState] = (),
    ) -> list[checkpoint.Checkpoint]:
        """Returns checkpoints in the order of trials and batches.

        Args:
            experiment_id: The experiment; None for all.
            trial_id: The trial; None for all.
            states: States to list; empty for all.
        """
        table = schema.CHECKPOINTS
        query = sa.select(table).order_by(table.c.trial_id, table.c.total_batches, table.c.time)
        if experiment_id is not None:
            query = query.where(table.c.experiment_id == experiment_id)
        if trial_id is not None:
            query = query.where(table.c.trial_id == trial_id)
        if states:
            query = query.where(table.c.state.in_(list(states)))
        return self._list(checkpoint.Checkpoint, query)

    def list_checkpoint_uuids(self) -> set[str]:
        """Returns the UUIDs of all checkpoints."""
        return set(self._connection.scalars(sa.select(schema.CHECKPOINTS.c.uuid)))

    # Logs

    def add_logs(self, rows: Sequence[log.LogRow]) -> None:
        """Stores lines; they get their numbers in this order."""
        self._add_all(rows)

    def list_logs(
        self,
        trial_id: int,
        *,
        after: int = 0,
        limit: int = 1000,
        source: log.LogSource | None = None,
        contains: str | None = None,
        last: int | None = None,
    ) -> list[log.LogRow]:
        """Returns lines of a trial in order.

        Args:
            trial_id: The trial.
            after: Number of a line; only later ones are listed.
            limit: Most lines to return.
            source: Where they must come from; None for all.
            contains: Text that they must contain, in this case; None for all.
            last: If given, only so many of the newest lines that fit are listed.
        """
        table = schema.LOGS
        query = sa.select(table).where(table.c.trial_id == trial_id, table.c.id > after)
        if source is not None:
            query = query.where(table.c.source == source)
        if contains:
            query = query.where(sa.func.instr(table.c.text, contains) > 0)
        if last is None:
            return self._list(log.LogRow, query.order_by(table.c.id).limit(limit))
        newest = query.order_by(table.c.id.desc()).limit(min(last, limit))
        return self._list(log.LogRow, newest)[::-1]

    # Processes

    def save_run(self, record: run.Run) -> None:
        """Stores a process, or replaces the one of the same launch."""
        self.delete_run(record.launch_id)
        self._connection.execute(sa.insert(schema.RUNS), schema.to_row(record))

    def list_runs(self, *, trial_id: int | None = None) -> list[run.Run]:
        """Returns the processes of a trial, or of all, in the order of trials."""
        table = schema.RUNS
        query = sa.select(table).order_by(table.c.trial_id, table.c.launch_id)
        if trial_id is not None:
            query = query.where(table.c.trial_id == trial_id)
        return self._list(run.Run, query)

    def delete_run(self, launch_id: str) -> None:
        """Forgets a process; one that is not known is no error."""
        table = schema.RUNS
        self._connection.execute(sa.delete(table).where(table.c.launch_id == launch_id))

    # The home, and what is to be deleted in it

    def get_home_id(self) -> str | None:
        """Returns the home whose database this is, or None if that was never noted."""
        return self._connection.scalar(sa.select(schema.HOME.c.home_id))

    def set_home_id(self, home_id: str) -> None:
        """Notes the home whose database this is."""
        self._connection.execute(sa.delete(schema.HOME))
        self._connection.execute(sa.insert(schema.HOME), {"home_id": home_id})

    def add_deletions(self, records: Sequence[deletion.Deletion]) -> None:
        """Notes directories that are to be deleted."""
        self._add_all(records)

    def list_deletions(self) -> list[deletion.Deletion]:
        """Returns what is to be deleted, in the order in which it was noted."""
        table = schema.DELETIONS
        return self._list(deletion.Deletion, sa.select(table).order_by(table.c.id))

    def remove_deletions(self, ids: Collection[int]) -> None:
        """Forgets deletions that are done."""
        table = schema.DELETIONS
        self._connection.execute(sa.delete(table).where(table.c.id.in_(list(ids))))

    # All kinds

    def _add(self, record: R) -> R:
        table = schema.TABLES[type(record)]
        result = self._connection.execute(sa.insert(table), schema.to_row(record))
        key = next(iter(table.primary_key)).name
        kind = type(record)
        return self._get(kind, kind.__name__.lower(), key, _only_key(result))

    def _add_all(self, records: Sequence[Any]) -> None:
        if records:
            table = schema.TABLES[type(records[0])]
            self._connection.execute(sa.insert(table), [schema.to_row(row) for row in records])

    def _update(self, record: Any, noun: str, key: str) -> None:
        table = schema.TABLES[type(record)]
        row = schema.to_row(record)
        value = row.pop(key)
        result = self._connection.execute(sa.update(table).where(table.c[key] == value).values(row))
        if not result.rowcount:
            raise self._missing(table, noun, key, value)

    def _get(self, kind: type[R], noun: str, key: str, value: Any) -> R:
        table = schema.TABLES[kind]
        row = self._connection.execute(sa.select(table).where(table.c[key] == value)).first()
        if row is None:
            raise self._missing(table, noun, key, value)
        return schema.to_record(kind, row._mapping)

    def _list(self, kind: type[R], query: sa.Select[Any]) -> list[R]:
        return [schema.to_record(kind, row) for row in self._connection.execute(query).mappings()]

    def _missing(self, table: sa.Table, noun: str, key: str, value: Any) -> errors.NotFoundError:
        column = table.c[key]
        if isinstance(value, str):
            near = self._connection.scalars(
                sa.select(column).where(column.startswith(value[:4] or "-")).limit(3)
            ).all()
            hint = f"similar ones: {', '.join(near)}" if near else "no UUID begins like it"
        else:
            newest = self._connection.scalar(sa.select(sa.func.max(column)))
            hint = f"the newest is {newest}" if newest else "there are none yet"
        return errors.NotFoundError(f"There is no {noun} {value}; {hint}.")


def _check_damage(error: Exception) -> None:
    """Raises an error again that is not about the value which was read, but about the database."""
    if isinstance(error, exc.OperationalError) and "decode to UTF-8" not in str(error.orig):
        raise error


def _only_key(result: sa.CursorResult[Any]) -> Any:
    keys = result.inserted_primary_key
    if keys is None:
        raise errors.StoreError("The database gave no key to a new row.")
    return keys[0]
