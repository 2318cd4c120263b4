"""What can be done in one transaction of the store."""

from collections.abc import Collection, Sequence
from typing import Any, TypeVar

import sqlalchemy as sa
from sqlalchemy import exc

from quintain import errors
from quintain.records import checkpoint, deletion, experiment, log, metric, run, states, trial
from quintain.store import columns, reading, schema

R = TypeVar("R")


class Session(reading.Reader):
    """Reads and writes records; all of it, or nothing, is kept."""

    def __init__(self, connection: sa.Connection) -> None:
        """Stores the connection, in whose transaction everything happens."""
        super().__init__(
            lambda query, values: connection.execute(sa.text(query), values),
            is_sqlite=connection.dialect.name == "sqlite",
            failure=exc.OperationalError,
        )
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
        self._update(record, "id")

    def delete_experiment(self, experiment_id: int) -> None:
        """Deletes an experiment with all that belongs to it.

        Raises:
            NotFoundError: If there is none of this id.
        """
        self.get_experiment(experiment_id)
        table = schema.EXPERIMENTS
        self._connection.execute(sa.delete(table).where(table.c.id == experiment_id))

    # Trials

    def add_trial(self, record: trial.TrialRecord) -> trial.TrialRecord:
        """Stores a new trial and returns it; one whose id is 0 gets the next id."""
        return self._add(record)

    def update_trial(self, record: trial.TrialRecord) -> None:
        """Replaces the trial of the same id.

        Raises:
            NotFoundError: If there is none.
        """
        self._update(record, "id")

    def end_trials(
        self, experiment_id: int, state: states.TrialState, reason: str, end_time: float
    ) -> None:
        """Ends those trials of an experiment that have not ended, without reading them."""
        table = schema.TRIALS
        going = [each.value for each in states.TrialState if not each.is_terminal]
        self._connection.execute(
            sa.update(table)
            .where(table.c.experiment_id == experiment_id, table.c.state.in_(going))
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
        self._add_all(rows)

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
                "batch_metrics": columns.to_json(list(batch_metrics)),
            },
        )

    # Checkpoints

    def add_checkpoint(self, record: checkpoint.Checkpoint) -> checkpoint.Checkpoint:
        """Stores a new checkpoint and returns it."""
        return self._add(record)

    def update_checkpoint(self, record: checkpoint.Checkpoint) -> None:
        """Replaces the checkpoint of the same UUID.

        Raises:
            NotFoundError: If there is none.
        """
        self._update(record, "uuid")

    # Logs

    def add_logs(self, rows: Sequence[log.LogRow]) -> None:
        """Stores lines; they get their numbers in this order."""
        self._add_all(rows)

    # Processes

    def save_run(self, record: run.Run) -> None:
        """Stores a process, or replaces the one of the same launch."""
        self.delete_run(record.launch_id)
        self._connection.execute(sa.insert(schema.RUNS), columns.to_row(record))

    def delete_run(self, launch_id: str) -> None:
        """Forgets a process; one that is not known is no error."""
        table = schema.RUNS
        self._connection.execute(sa.delete(table).where(table.c.launch_id == launch_id))

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
        result = self._connection.execute(sa.update(table).where(table.c[key] == value).values(row))
        if not result.rowcount:
            raise self._missing(type(record), key, value)


def _find_table(kind: type[Any]) -> sa.Table:
    return schema.METADATA.tables[columns.TABLES[kind]]


def _only_key(result: sa.CursorResult[Any]) -> Any:
    keys = result.inserted_primary_key
    if keys is None:
        raise errors.StoreError("The database gave no key to a new row.")
    return keys[0]
