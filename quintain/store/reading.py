"""Queries of a read transaction."""

from __future__ import annotations

import itertools
import json
from collections.abc import Collection, Mapping
from typing import Any, Final

from quintain import errors
from quintain.records import rows as kinds
from quintain.records import team
from quintain.store import queries, table_reading

_LONG_FIELDS: Final = ("files", "config", "origin")
_NAMES_OF_MODELS: Final = "SELECT DISTINCT name FROM model_versions ORDER BY name"
_MOST_ROWS: Final = 2**62
"""More than any table has."""


class Reader(table_reading.TableReader):
    """Reads records, all as they were at one moment."""

    # Experiments

    def get_experiment(self, experiment_id: int) -> kinds.experiment.Experiment:
        """Returns an experiment; one whose row can't be read is a `DamagedExperiment`.

        Raises:
            NotFoundError: If there is none of this id.
        """
        try:
            return self._get(kinds.experiment.Experiment, "id", experiment_id)
        except self._damage as error:
            self._check_damage(error)
            return _describe_damaged(experiment_id, error)

    def list_experiments(
        self,
        *,
        include_archived: bool = False,
        states: Collection[kinds.states.ExperimentState] = (),
        labels: Collection[str] = (),
        projects: Collection[str] = (),
    ) -> list[kinds.experiment.Experiment]:
        """Returns experiments in the order of their ids; damaged ones as `get_experiment` does.

        Args:
            include_archived: Whether archived ones are listed, too.
            states: States to list; empty for all.
            labels: Labels that an experiment must have, all of them.
            projects: Projects to list; empty for all.
        """
        where = queries.Where()
        if not include_archived:
            where.add("NOT is_archived")
        where.add_any("state", states)
        try:
            found = self._list(kinds.experiment.Experiment, where, "ORDER BY id")
        except self._damage as error:
            self._check_damage(error)
            # One by one, so that the others are there.
            ids = self._select(f"SELECT id FROM experiments {where} ORDER BY id", where.values)
            found = [self.get_experiment(row[0]) for row in list(ids)]
        return [
            record
            for record in found
            if set(labels) <= set(record.labels) and (not projects or record.project in projects)
        ]

    def has_experiments(self) -> bool:
        """Returns whether there is any, archived or damaged ones among them."""
        return bool(self._find_value("SELECT COUNT(*) FROM experiments"))

    def get_last_experiment_id(self) -> int:
        """Returns the largest number that an experiment has, or ever had; 0 if none had one."""
        return self._find_last_id("experiments")

    # Trials

    def get_trial(self, trial_id: int) -> kinds.trial.TrialRecord:
        """Returns a trial.

        Raises:
            NotFoundError: If there is none of this id.
        """
        return self._get(kinds.trial.TrialRecord, "id", trial_id)

    def list_trials(
        self,
        experiment_id: int | None = None,
        *,
        states: Collection[kinds.states.TrialState] = (),
        ids: Collection[int] | None = None,
        limit: int | None = None,
        offset: int = 0,
    ) -> list[kinds.trial.TrialRecord]:
        """Returns trials in the order of their ids.

        Args:
            experiment_id: The experiment; None for all.
            states: States to list; empty for all.
            ids: Trials to list, as far as there are any; None for all.
            limit: Most trials; None for all.
            offset: How many of them are left out first.
        """
        where = queries.Where(experiment_id=experiment_id)
        where.add_any("state", states)
        if ids is not None:  # They may be more than a query can have values.
            where.add(f"id IN ({', '.join(str(int(each)) for each in ids) or 'NULL'})")
        if limit is None and not offset:
            return self._list(kinds.trial.TrialRecord, where, "ORDER BY id")
        where.values |= {"limit": _MOST_ROWS if limit is None else limit, "offset": offset}
        return self._list(kinds.trial.TrialRecord, where, "ORDER BY id LIMIT :limit OFFSET :offset")

    # Events

    def list_events(self, experiment_id: int, *, after: int = 0) -> list[dict[str, Any]]:
        """Returns the events of an experiment in the order in which they were stored.

        Args:
            experiment_id: The experiment.
            after: Number of an event; only later ones are listed.
        """
        where = queries.Where(experiment_id=experiment_id)
        where.add("id > :after", after=after)
        rows = self._select(f"SELECT event FROM events {where} ORDER BY id", where.values)
        return [json.loads(event) for (event,) in rows]

    def list_numbered_events(
        self, experiment_id: int, *, after: int = 0
    ) -> list[tuple[int, dict[str, Any]]]:
        """Returns what `list_events` does, each with its number."""
        query = "SELECT id, event FROM events WHERE experiment_id = :id AND id > :after ORDER BY id"
        rows = self._select(query, {"id": experiment_id, "after": after})
        return [(number, json.loads(event)) for number, event in rows]

    # Metrics

    def list_metrics(
        self,
        trial_id: int,
        *,
        group: kinds.metric.MetricGroup | None = None,
        after_batches: int = -1,
    ) -> list[kinds.metric.MetricRow]:
        """Returns the metrics of a trial in the order of batches.

        Args:
            trial_id: The trial.
            group: What they were measured on; None for training and validation.
            after_batches: Only metrics of more batches are listed.
        """
        where = queries.Where(trial_id=trial_id, group=group)
        if group is None:
            where.add('"group" != :system', system=kinds.metric.MetricGroup.SYSTEM.value)
        where.add("total_batches > :after", after=after_batches)
        return self._list(kinds.metric.MetricRow, where, "ORDER BY total_batches, id")

    def list_metrics_since(self, trial_id: int, first_row_id: int) -> list[kinds.metric.MetricRow]:
        """Returns metrics of a trial, of all groups, in the order in which they were stored.

        Args:
            trial_id: The trial.
            first_row_id: Number of the first row, as a change refers to it.
        """
        where = queries.Where(trial_id=trial_id)
        where.add("id >= :first", first=first_row_id)
        return self._list(kinds.metric.MetricRow, where, "ORDER BY id")

    def list_batch_metrics(
        self, trial_id: int, *, after_batches: int = -1
    ) -> list[tuple[int, list[dict[str, Any]]]]:
        """Returns what `add_batch_metrics` stored of a trial, in the order of batches.

        Args:
            trial_id: The trial.
            after_batches: Only workloads that ended after more batches are listed.
        """
        where = queries.Where(trial_id=trial_id)
        where.add("total_batches > :after", after=after_batches)
        query = f"SELECT total_batches, batch_metrics FROM batch_metrics {where}"
        rows = self._select(f"{query} ORDER BY total_batches, id", where.values)
        return [(total, json.loads(batches)) for total, batches in rows]

    # Checkpoints

    def get_checkpoint(self, uuid: str) -> kinds.checkpoint.Checkpoint:
        """Returns a checkpoint.

        Raises:
            NotFoundError: If there is none of this UUID.
        """
        return self._get(kinds.checkpoint.Checkpoint, "uuid", uuid)

    def list_checkpoints(
        self,
        *,
        experiment_id: int | None = None,
        trial_id: int | None = None,
        states: Collection[kinds.checkpoint.CheckpointState] = (),
    ) -> list[kinds.checkpoint.Checkpoint]:
        """Returns checkpoints in the order of trials and batches.

        Args:
            experiment_id: The experiment; None for all.
            trial_id: The trial; None for all.
            states: States to list; empty for all.
        """
        where = queries.Where(experiment_id=experiment_id, trial_id=trial_id)
        where.add_any("state", states)
        return self._list(
            kinds.checkpoint.Checkpoint, where, "ORDER BY trial_id, total_batches, time"
        )

    def list_checkpoint_uuids(self) -> set[str]:
        """Returns the UUIDs of all checkpoints."""
        return {row[0] for row in self._select("SELECT uuid FROM checkpoints", {})}

    # Logs

    def list_logs(
        self, trial_id: int, which: kinds.log.LogFilter = kinds.log.ALL
    ) -> list[kinds.log.LogRow]:
        """Returns lines of a trial."""
        return self._list_logs(queries.Where(trial_id=trial_id), which)

    def list_experiment_logs(
        self, experiment_id: int, which: kinds.log.LogFilter = kinds.log.ALL
    ) -> list[kinds.log.LogRow]:
        """Returns lines of all trials of an experiment."""
        trials = "FROM trials WHERE experiment_id = :experiment_id"
        # The lines are looked through in their order, which ends with the page: from the first to
        # the last line of the experiment, which are found trial by trial.
        first, last = (
            f"(SELECT {end}((SELECT {end}(id) FROM logs WHERE trial_id = trials.id)) {trials})"
            for end in ("min", "max")
        )
        where = queries.Where()
        where.add(f"id BETWEEN {first} AND {last}", experiment_id=experiment_id)
        where.add(f"+trial_id IN (SELECT id {trials})")
        return self._list_logs(where, which)

    def _list_logs(
        self, where: queries.Where, which: kinds.log.LogFilter
    ) -> list[kinds.log.LogRow]:
        where.add("id > :after", after=which.after)
        if which.before is not None:
            where.add("id < :before", before=which.before)
        if which.source is not None:
            where.add("source = :source", source=which.source.value)
        if which.contains:
            find = "instr" if self._is_sqlite else "strpos"
            where.add(f"{find}(text, :contains) > 0", contains=which.contains)
        where.add_like("text", which.like, is_sqlite=self._is_sqlite)
        where.values["limit"] = which.num_wanted
        if which.is_backward:
            return self._list(kinds.log.LogRow, where, "ORDER BY id DESC LIMIT :limit")[::-1]
        return self._list(kinds.log.LogRow, where, "ORDER BY id LIMIT :limit")

    # Processes

    def list_launches(self, *, trial_id: int | None = None) -> list[kinds.launch.Launch]:
        """Returns the processes of a trial, or of all, in the order of trials."""
        where = queries.Where(trial_id=trial_id)
        return self._list(kinds.launch.Launch, where, "ORDER BY trial_id, launch_id")

    def list_spans(
        self, experiment_id: int | None = None, since: float | None = None
    ) -> list[kinds.launch.Span]:
        """Returns which processes held which slots, in the order of their starts.

        Args:
            experiment_id: The experiment; None for all.
            since: Seconds since the epoch; if given, spans that had ended by then are left out.
        """
        where = queries.Where(experiment_id=experiment_id)
        if since is not None:
            where.add("(end_time IS NULL OR end_time > :since)", since=since)
        return self._list(kinds.launch.Span, where, "ORDER BY start_time, launch_id")

    # Users

    def get_audit(
        self,
        *,
        experiment_id: int | None = None,
        user_name: str = "",
        since: float | None = None,
        limit: int = 1000,
    ) -> list[team.AuditEntry]:
        """Returns the newest entries of the audit log, in the order in which they were stored.

        Args:
            experiment_id: Only those about this experiment, which may be deleted.
            user_name: Only those by this user; by all if empty.
            since: Seconds since the epoch; only those not before.
            limit: Most entries.
        """
        where = queries.Where(experiment_id=experiment_id, user_name=user_name or None)
        if since is not None:
            where.add("time >= :since", since=since)
        where.values["limit"] = limit
        return self._list(team.AuditEntry, where, "ORDER BY id DESC LIMIT :limit")[::-1]

    def list_grants(self) -> list[team.Grant]:
        """Returns the roles of all users."""
        return self._list(team.Grant, queries.Where(), "ORDER BY user_name, project")

    # Machines and loggers

    def list_nodes(self) -> list[kinds.node.KnownNode]:
        """Returns the machines that have ever called, in the order of their names."""
        return self._list(kinds.node.KnownNode, queries.Where(), "ORDER BY name")

    def list_sent_metrics(self, experiment_id: int) -> list[kinds.sent_metrics.SentMetrics]:
        """Returns how far the metrics of an experiment's trials were sent to loggers."""
        where = queries.Where()
        where.add(
            "trial_id IN (SELECT id FROM trials WHERE experiment_id = :owner)", owner=experiment_id
        )
        return self._list(kinds.sent_metrics.SentMetrics, where, "ORDER BY trial_id, logger")

    # Registered models

    def list_models(self) -> list[kinds.registered_model.RegisteredModel]:
        """Returns all models by name; versions without their files, configs and origins."""
        return self._list_models(queries.Where(), dict.fromkeys(_LONG_FIELDS, "'{}'"))

    def get_model(self, name: str) -> kinds.registered_model.RegisteredModel:
        """Returns a model with all that is kept of its versions.

        Raises:
            NotFoundError: If there is none of this name.
        """
        found = self._list_models(queries.Where(name=name), {})
        if not found:
            known = [row[0] for row in self._select(f"{_NAMES_OF_MODELS} LIMIT 20", {})]
            raise errors.NotFoundError(
                f"There is no model {errors.show(name)}; there are {', '.join(known) or 'none'}."
                f"{errors.suggest(name, known)}"
            )
        return found[0]

    def _list_models(
        self, where: queries.Where, instead: Mapping[str, str]
    ) -> list[kinds.registered_model.RegisteredModel]:
        versions, moves = kinds.registered_model.ModelVersion, kinds.registered_model.AliasMove
        all_versions = self._list(versions, where, "ORDER BY name, version", instead)
        all_moves = self._list(moves, where, "ORDER BY id")
        models = []
        for name, group in itertools.groupby(all_versions, key=lambda each: each.name):
            own = tuple(group)
            history = tuple(each for each in all_moves if each.name == name)
            aliases = {each.alias: each.version for each in history}
            usable = {each.version for each in own if not each.is_deleted}
            aliases = {alias: number for alias, number in aliases.items() if number in usable}
            models.append(kinds.registered_model.RegisteredModel(name, aliases, own, history))
        return models

    def find_registered(self) -> dict[str, str]:
        """Returns the versions that point at checkpoints of trials, by the UUIDs of these."""
        query = (
            "SELECT checkpoint, name, version FROM model_versions "
            "WHERE trial_id IS NOT NULL AND NOT is_deleted"
        )
        return {uuid: f"{name}@{version}" for uuid, name, version in self._select(query, {})}

    # Changes

    def list_changes(self, after: int, limit: int = 1000) -> list[kinds.change.Change]:
        """Returns the changes after one, in order.

        Args:
            after: Number of a change.
            limit: Most changes to return.
        """
        where = queries.Where()
        where.add("id > :after", after=after)
        where.values["limit"] = limit
        return self._list(kinds.change.Change, where, "ORDER BY id LIMIT :limit")

    def get_change_bounds(self) -> tuple[int, int]:
        """Returns the numbers after which all changes are kept, and of the newest there ever was.

        Whoever knows of changes up to a number between them, or one of them, misses none.
        """
        newest = self._find_last_id("changes")
        oldest = self._find_value("SELECT min(id) FROM changes")
        return (newest if oldest is None else oldest - 1), newest

    # The home, and what is to be deleted in it

    def get_home_id(self) -> str | None:
        """Returns the home whose database this is, or None if that was never noted."""
        found: str | None = self._find_value("SELECT home_id FROM home")
        return found

    def list_deletions(self) -> list[kinds.deletion.Deletion]:
        """Returns what is to be deleted, in the order in which it was noted."""
        return self._list(kinds.deletion.Deletion, queries.Where(), "ORDER BY id")


def _describe_damaged(experiment_id: int, error: Exception) -> kinds.experiment.Experiment:
    """Returns what stands for an experiment whose row can't be read."""
    return kinds.experiment.DamagedExperiment(
        id=experiment_id,
        state=kinds.states.ExperimentState.ERROR,
        config={"name": "(damaged)"},
        original_config="",
        model_dir="",
        reason=f"Its row in the database is damaged and stays as it is ({error}).",
    )
