"""What users read, answered from the store."""

import pathlib
import typing
from collections.abc import Callable, Sequence
from typing import Any

from typing_extensions import override

from quintain import errors
from quintain.client import calls
from quintain.client import home as home_lib
from quintain.records import checkpoint as checkpoint_lib
from quintain.records import experiment as experiment_lib
from quintain.records import log, master_status, metric, provenance, run, states
from quintain.records import trial as trial_lib
from quintain.server import checkpoint_files

if typing.TYPE_CHECKING:
    # Who asks has opened it, or need not wait for it.
    from quintain.store import reading

_MIN_PREFIX = 4


class DirectCalls(calls.Calls):
    """Reads from a store, also where no master runs."""

    def __init__(
        self,
        store: "reading.ReadableStore",
        home: home_lib.Home,
        find_status: Callable[[], master_status.MasterStatus] = master_status.MasterStatus,
    ) -> None:
        """Stores its parts.

        Args:
            store: What is read.
            home: Where files are.
            find_status: Returns what runs where; nothing does where there is no master.
        """
        self._store = store
        self._home = home
        self._find_status = find_status

    @override
    def get_status(self) -> master_status.MasterStatus:
        return self._find_status()

    @override
    def list_experiments(
        self,
        *,
        include_archived: bool = False,
        state_names: Sequence[states.ExperimentState] = (),
        labels: Sequence[str] = (),
    ) -> list[experiment_lib.Experiment]:
        with self._store.reading() as session:
            return session.list_experiments(
                include_archived=include_archived,
                states=tuple(state_names),
                labels=tuple(labels),
            )

    @override
    def get_experiment(self, experiment_id: int) -> experiment_lib.Experiment:
        with self._store.reading() as session:
            return session.get_experiment(experiment_id)

    @override
    def list_events(self, experiment_id: int, *, after: int = 0) -> list[dict[str, Any]]:
        with self._store.reading() as session:
            session.get_experiment(experiment_id)
            return session.list_events(experiment_id, after=after)

    @override
    def list_trials(
        self,
        experiment_id: int | None = None,
        *,
        state_names: Sequence[states.TrialState] = (),
    ) -> list[trial_lib.TrialRecord]:
        with self._store.reading() as session:
            if experiment_id is not None:
                session.get_experiment(experiment_id)
            return session.list_trials(experiment_id, states=tuple(state_names))

    @override
    def get_trial(self, trial_id: int) -> trial_lib.TrialRecord:
        with self._store.reading() as session:
            return session.get_trial(trial_id)

    @override
    def list_metrics(
        self,
        trial_id: int,
        *,
        group: metric.MetricGroup | None = None,
        after_batches: int = -1,
    ) -> list[metric.MetricRow]:
        with self._store.reading() as session:
            session.get_trial(trial_id)
            return session.list_metrics(trial_id, group=group, after_batches=after_batches)

    @override
    def list_batch_metrics(
        self, trial_id: int, *, after_batches: int = -1
    ) -> list[metric.BatchRow]:
        with self._store.reading() as session:
            session.get_trial(trial_id)
            stored = session.list_batch_metrics(trial_id, after_batches=after_batches)
        return [
            metric.BatchRow(number, values)
            for total, batches in stored
            for number, values in enumerate(batches, start=total - len(batches) + 1)
        ]

    @override
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
        with self._store.reading() as session:
            session.get_trial(trial_id)
            return session.list_logs(
                trial_id, after=after, limit=limit, source=source, contains=contains, last=last
            )

    @override
    def list_checkpoints(
        self,
        *,
        experiment_id: int | None = None,
        trial_id: int | None = None,
        state_names: Sequence[checkpoint_lib.CheckpointState] = (),
    ) -> list[checkpoint_lib.Checkpoint]:
        with self._store.reading() as session:
            if experiment_id is not None:
                session.get_experiment(experiment_id)
            if trial_id is not None:
                session.get_trial(trial_id)
            return session.list_checkpoints(
                experiment_id=experiment_id, trial_id=trial_id, states=tuple(state_names)
            )

    @override
    def get_checkpoint(self, uuid: str) -> checkpoint_lib.Checkpoint:
        with self._store.reading() as session:
            try:
                return session.get_checkpoint(uuid)
            except errors.NotFoundError:
                if len(uuid) < _MIN_PREFIX:
                    raise
                found = [one for one in session.list_checkpoints() if one.uuid.startswith(uuid)]
                if not found:
                    raise
        if len(found) > 1:
            raise errors.NotFoundError(
                f"checkpoint {uuid}: {len(found)} checkpoints begin like this; give more of the "
                "UUID."
            )
        return found[0]

    @override
    def fetch_checkpoint(self, uuid: str, directory: pathlib.Path) -> list[str]:
        source = self.find_checkpoint_dir(uuid)
        return checkpoint_files.copy_files(source, checkpoint_files.list_files(source), directory)

    @override
    def fetch_model_dir(self, experiment_id: int, directory: pathlib.Path) -> list[str]:
        source = self.find_model_dir(experiment_id)
        return checkpoint_files.copy_files(source, checkpoint_files.list_files(source), directory)

    @override
    def get_provenance(self, experiment_id: int) -> provenance.Provenance:
        found = provenance.load(self.get_experiment(experiment_id).model_dir)
        if found is None:
            raise errors.NotFoundError(
                f"experiment {experiment_id}: it is not known where it comes from; it was created "
                "by a program that did not say it, or by an earlier version."
            )
        return found

    def list_spans(
        self, experiment_id: int | None = None, *, since: float | None = None
    ) -> list[run.Span]:
        """Returns when trials held slots, in the order in which they got them.

        Args:
            experiment_id: The experiment; None for all.
            since: Only those that had not ended then; seconds since the epoch.
        """
        with self._store.reading() as session:
            if experiment_id is not None:
                session.get_experiment(experiment_id)
            return session.list_spans(experiment_id, since=since)

    def find_checkpoint_dir(self, uuid: str) -> pathlib.Path:
        """Returns the directory of a checkpoint.

        Raises:
            CheckpointError: If its files are not there.
        """
        checkpoint = self.get_checkpoint(uuid)
        experiment = self.get_experiment(checkpoint.experiment_id)
        return checkpoint_files.find_checkpoint_dir(checkpoint, experiment, self._home.checkpoints)

    def find_model_dir(self, experiment_id: int) -> pathlib.Path:
        """Returns the directory with the code of an experiment.

        Raises:
            NotFoundError: If it has none.
        """
        model_dir = self.get_experiment(experiment_id).model_dir
        if not model_dir or not pathlib.Path(model_dir).is_dir():
            raise errors.NotFoundError(
                f"experiment {experiment_id}: there is no code of its own; its entrypoint is a "
                "registered experiment."
            )
        return pathlib.Path(model_dir)

    @override
    def list_orphans(self) -> list[checkpoint_lib.Orphan]:
        # It imports what commands that only read need not wait for.
        from quintain.scheduler import orphans  # noqa: PLC0415

        return orphans.find(self._store, self._home.path)
