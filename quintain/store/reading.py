"""What can be read in one transaction of a database.

The queries are texts, so that they can be asked through the standard library's `sqlite3` as well as
through SQLAlchemy, whose import takes longer than what most commands read.
"""

import abc
import contextlib
import json
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, TypeVar

from quintain import errors
from quintain.records import checkpoint, deletion, experiment, log, metric, run, states, trial
from quintain.store import columns

R = TypeVar("R")

Select = Callable[[str, Mapping[str, Any]], Iterable[Sequence[Any]]]
"""Asks a query with values for its `:names`, and returns rows."""


class Reader:
    """Reads records, all as they were at one moment."""

    def __init__(self, select: Select, *, is_sqlite: bool, failure: type[Exception]) -> None:
        """Stores how to ask.

        Args:
            select: Asks a query.
            is_sqlite: Whether the database is SQLite, which knows more of deleted experiments.
            failure: What is raised by texts that are damaged, and by databases that can't be read.
        """
        self._select = select
        self._is_sqlite = is_sqlite
        self._failure = failure
        self._damage = (ValueError, TypeError, AttributeError, KeyError, failure)

    # Experiments

    def get_experiment(self, experiment_id: int) -> experiment.Experiment:
        """Returns an experiment; one whose row can't be read is a `DamagedExperiment`.

        Raises:
            NotFoundError: If there is none of this id.
        """
        try:
            return self._get(experiment.Experiment, "id", experiment_id)
        except self._damage as error:
            self._check_damage(error)
            return _describe_damaged(experiment_id, error)

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
        where = _Where()
        if not include_archived:
            where.add("NOT is_archived")
        where.add_any("state", states)
        try:
            found = self._list(experiment.Experiment, where, "ORDER BY id")
        except self._damage as error:
            self._check_damage(error)
            # One by one, so that the others are there.
            ids = self._select(f"SELECT id FROM experiments {where} ORDER BY id", where.values)
            found = [self.get_experiment(row[0]) for row in list(ids)]
        return [record for record in found if set(labels) <= set(record.labels)]

    def get_last_experiment_id(self) -> int:
        """Returns the largest number that an experiment has, or ever had; 0 if none had one.

        Numbers of deleted experiments are only known to SQLite.
        """
        known = self._find_value("SELECT max(id) FROM experiments") or 0
        if self._is_sqlite:
            query = "SELECT seq FROM sqlite_sequence WHERE name = 'experiments'"
            known = max(known, self._find_value(query) or 0)
        return int(known)

    # Trials

    def get_trial(self, trial_id: int) -> trial.TrialRecord:
        """Returns a trial.

        Raises:
            NotFoundError: If there is none of this id.
        """
        return self._get(trial.TrialRecord, "id", trial_id)

    def list_trials(
        self, experiment_id: int | None = None, *, states: Collection[states.TrialState] = ()
    ) -> list[trial.TrialRecord]:
        """Returns trials in the order of their ids.

        Args:
            experiment_id: The experiment; None for all.
            states: States to list; empty for all.
        """
        where = _Where(experiment_id=experiment_id)
        where.add_any("state", states)
        return self._list(trial.TrialRecord, where, "ORDER BY id")

    # Events

    def list_events(self, experiment_id: int, *, after: int = 0) -> list[dict[str, Any]]:
        """Returns the events of an experiment in the order in which they were stored.

        Args:
            experiment_id: The experiment.
            after: Number of an event; only later ones are listed.
        """
        where = _Where(experiment_id=experiment_id)
        where.add("id > :after", after=after)
        rows = self._select(f"SELECT event FROM events {where} ORDER BY id", where.values)
        return [json.loads(event) for (event,) in rows]

    # Metrics

    def list_metrics(
        self, trial_id: int, *, group: metric.MetricGroup | None = None, after_batches: int = -1
    ) -> list[metric.MetricRow]:
        """Returns the metrics of a trial in the order of batches.

        Args:
            trial_id: The trial.
            group: What they are about; None for training and validation.
            after_batches: Only metrics of more batches are listed.
        """
        where = _Where(trial_id=trial_id, group=group)
        if group is None:
            where.add('"group" <> :system', system=metric.MetricGroup.SYSTEM.value)
        where.add("total_batches > :after", after=after_batches)
        return self._list(metric.MetricRow, where, "ORDER BY total_batches, id")

    def list_batch_metrics(
        self, trial_id: int, *, after_batches: int = -1
    ) -> list[tuple[int, list[dict[str, Any]]]]:
        """Returns what `add_batch_metrics` stored of a trial, in the order of batches.

        Args:
            trial_id: The trial.
            after_batches: Only workloads that ended after more batches are listed.
        """
        where = _Where(trial_id=trial_id)
        where.add("total_batches > :after", after=after_batches)
        query = f"SELECT total_batches, batch_metrics FROM batch_metrics {where}"
        rows = self._select(f"{query} ORDER BY total_batches, id", where.values)
        return [(total, json.loads(batches)) for total, batches in rows]

    # Checkpoints

    def get_checkpoint(self, uuid: str) -> checkpoint.Checkpoint:
        """Returns a checkpoint.

        Raises:
            NotFoundError: If there is none of this UUID.
        """
        return self._get(checkpoint.Checkpoint, "uuid", uuid)

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
        where = _Where(experiment_id=experiment_id, trial_id=trial_id)
        where.add_any("state", states)
        return self._list(checkpoint.Checkpoint, where, "ORDER BY trial_id, total_batches, time")

    def list_checkpoint_uuids(self) -> set[str]:
        """Returns the UUIDs of all checkpoints."""
        return {row[0] for row in self._select("SELECT uuid FROM checkpoints", {})}

    # Logs

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
        where = _Where(trial_id=trial_id, source=source)
        where.add("id > :after", after=after)
        if contains:
            where.add("instr(text, :contains) > 0", contains=contains)
        where.values["limit"] = limit if last is None else min(last, limit)
        if last is None:
            return self._list(log.LogRow, where, "ORDER BY id LIMIT :limit")
        return self._list(log.LogRow, where, "ORDER BY id DESC LIMIT :limit")[::-1]

    # Processes

    def list_runs(self, *, trial_id: int | None = None) -> list[run.Run]:
        """Returns the processes of a trial, or of all, in the order of trials."""
        where = _Where(trial_id=trial_id)
        return self._list(run.Run, where, "ORDER BY trial_id, launch_id")

    # The home, and what is to be deleted in it

    def get_home_id(self) -> str | None:
        """Returns the home whose database this is, or None if that was never noted."""
        found: str | None = self._find_value("SELECT home_id FROM home")
        return found

    def list_deletions(self) -> list[deletion.Deletion]:
        """Returns what is to be deleted, in the order in which it was noted."""
        return self._list(deletion.Deletion, _Where(), "ORDER BY id")

    # All kinds

    def _list(self, kind: type[R], where: "_Where", order: str) -> list[R]:
        # `group` is a word of SQL.
        names = ", ".join(f'"{name}"' for name in columns.list_names(kind))
        query = f"SELECT {names} FROM {columns.TABLES[kind]} {where} {order}"
        return [columns.to_record(kind, row) for row in self._select(query, where.values)]

    def _get(self, kind: type[R], key: str, value: Any) -> R:
        found = self._list(kind, _Where(**{key: value}), "")
        if not found:
            raise self._missing(kind, key, value)
        return found[0]

    def _find_value(self, query: str, values: Mapping[str, Any] | None = None) -> Any:
        """Returns the first value of the first row, or None if there is no row."""
        return next((row[0] for row in self._select(query, values or {})), None)

    def _check_damage(self, error: Exception) -> None:
        """Raises an error again that is about the database, not about the value that was read."""
        if isinstance(error, self._failure) and "decode to UTF-8" not in str(error):
            raise error

    def _missing(self, kind: type[Any], key: str, value: Any) -> errors.NotFoundError:
        table = columns.TABLES[kind]
        if isinstance(value, str):
            query = f"SELECT {key} FROM {table} WHERE {key} LIKE :like LIMIT 3"
            near = [row[0] for row in self._select(query, {"like": f"{value[:4] or '-'}%"})]
            hint = f"similar ones: {', '.join(near)}" if near else "no UUID begins like it"
        else:
            newest = self._find_value(f"SELECT max({key}) FROM {table}")
            hint = f"the newest is {newest}" if newest else "there are none yet"
        return errors.NotFoundError(f"There is no {table.removesuffix('s')} {value}; {hint}.")


def _describe_damaged(experiment_id: int, error: Exception) -> experiment.Experiment:
    """Returns what stands for an experiment whose row can't be read."""
    return experiment.DamagedExperiment(
        id=experiment_id,
        state=states.ExperimentState.ERROR,
        config={"name": "(damaged)"},
        original_config="",
        model_dir="",
        reason=f"Its row in the database is damaged and stays as it is ({error}).",
    )


class ReadableStore(abc.ABC):
    """A database that can be read."""

    @abc.abstractmethod
    def reading(self) -> contextlib.AbstractContextManager[Reader]:
        """Gives what reads, as all was at one moment.

        Raises:
            StoreError: If the database can't be read.
        """

    @abc.abstractmethod
    def close(self) -> None:
        """Closes all connections."""


class _Where:
    """The conditions of a query, with their values.

    Args:
        **equal: What columns must be equal to; None for anything.
    """

    def __init__(self, **equal: Any) -> None:
        self.values: dict[str, Any] = {}
        self._conditions: list[str] = []
        for name, value in equal.items():
            if value is not None:
                self.add(f'"{name}" = :{name}', **{name: columns.to_column(value)})

    def add(self, condition: str, **values: Any) -> None:
        """Adds a condition."""
        self._conditions.append(condition)
        self.values.update(values)

    def add_any(self, name: str, allowed: Collection[str]) -> None:
        """Adds that a column is one of some texts, if there are any."""
        if allowed:
            values = {
                f"{name}{number}": columns.to_column(text) for number, text in enumerate(allowed)
            }
            self.add(f"{name} IN ({', '.join(f':{key}' for key in values)})", **values)

    def __str__(self) -> str:
        return f"WHERE {' AND '.join(self._conditions)}" if self._conditions else ""
