"""Users' calls answered from the store and the master of this process."""

import pathlib
import typing
from collections.abc import Mapping, Sequence
from typing import Any

from typing_extensions import override

from quintain import errors
from quintain.client import calls
from quintain.client import home as home_lib
from quintain.config import overrides as overrides_lib
from quintain.records import checkpoint as checkpoint_lib
from quintain.records import experiment as experiment_lib
from quintain.records import log, master_status, metric, states
from quintain.records import trial as trial_lib
from quintain.server import checkpoint_files

if typing.TYPE_CHECKING:
    # Commands that only read need not wait for these.
    from quintain.scheduler import master as master_lib
    from quintain.store import store as store_lib

_MIN_PREFIX = 4


class DirectCalls(calls.Calls):
    """Reads from a store, and hands commands to a master, if there is one."""

    def __init__(
        self,
        store: "store_lib.Store",
        home: home_lib.Home,
        master: "master_lib.Master | None" = None,
    ) -> None:
        """Stores its parts.

        Args:
            store: What reads are answered from.
            home: Where files are.
            master: What carries out commands; None refuses them.
        """
        self._store = store
        self._home = home
        self._master = master

    @property
    def master(self) -> "master_lib.Master":
        """What carries out commands.

        Raises:
            MasterUnreachableError: If there is none.
        """
        if self._master is None:
            raise errors.MasterUnreachableError(
                f"No master runs for {self._home.path}; start one with `quintain master`."
            )
        return self._master

    # Reads.

    @override
    def get_status(self) -> master_status.MasterStatus:
        if self._master is None:
            return master_status.MasterStatus()
        return self._master.status()

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
    ) -> list[trial_lib.Trial]:
        with self._store.reading() as session:
            if experiment_id is not None:
                session.get_experiment(experiment_id)
            return session.list_trials(experiment_id, states=tuple(state_names))

    @override
    def get_trial(self, trial_id: int) -> trial_lib.Trial:
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

    # Commands.

    @override
    def create_experiment(
        self,
        config_text: str,
        model_dir: pathlib.Path | None,
        *,
        source: str = "config",
        overrides: Sequence[str] = (),
        parent_id: int | None = None,
        activate: bool = True,
    ) -> experiment_lib.Experiment:
        return self.master.create_experiment(
            config_text,
            model_dir,
            source=source,
            overrides=overrides,
            parent_id=parent_id,
            activate=activate,
        )

    @override
    def apply(self, experiment_id: int, command: str) -> experiment_lib.Experiment:
        if command not in calls.EXPERIMENT_COMMANDS:
            raise errors.NotFoundError(
                f"command {command!r}: there is none, expected one of "
                f"{', '.join(calls.EXPERIMENT_COMMANDS)}."
            )
        return typing.cast(experiment_lib.Experiment, getattr(self.master, command)(experiment_id))

    @override
    def delete_experiment(self, experiment_id: int) -> None:
        self.master.delete(experiment_id)

    @override
    def update_experiment(
        self, experiment_id: int, changes: Mapping[str, Any]
    ) -> experiment_lib.Experiment:
        for name in changes:
            if name not in calls.EDITABLE:
                raise errors.ConfigError(
                    f"{name}: can't be changed, expected one of {', '.join(calls.EDITABLE)}."
                    f"{errors.suggest(name, calls.EDITABLE)}"
                )
        # It imports pydantic, which commands that only read need not wait for.
        from quintain.server import experiment_changes  # noqa: PLC0415

        checked = experiment_changes.check_types(changes)
        return self.master.update_experiment(experiment_id, **checked)

    @override
    def fork_experiment(
        self, experiment_id: int, config_text: str | None, overrides: Sequence[str]
    ) -> experiment_lib.Experiment:
        return self.master.fork(experiment_id, config_text, overrides=overrides)

    @override
    def continue_experiment(
        self, experiment_id: int, overrides: Sequence[str]
    ) -> experiment_lib.Experiment:
        max_trials = _find_max_trials(overrides)
        if max_trials is not None:
            # More trials are no other search; this also works while it runs.
            return self.master.update_experiment(experiment_id, max_trials=max_trials)
        return self.master.continue_experiment(experiment_id, overrides)

    @override
    def kill_trial(self, trial_id: int) -> trial_lib.Trial:
        return self.master.kill_trial(trial_id)

    @override
    def rerun_trial(self, trial_id: int) -> experiment_lib.Experiment:
        return self.master.rerun_trial(trial_id)

    @override
    def delete_checkpoint(self, uuid: str) -> checkpoint_lib.Checkpoint:
        return self.master.delete_checkpoint(self.get_checkpoint(uuid).uuid)

    @override
    def list_orphans(self) -> list[checkpoint_lib.Orphan]:
        # It imports what commands that only read need not wait for.
        from quintain.scheduler import orphans  # noqa: PLC0415

        return orphans.find(self._store, self._home.path)

    @override
    def adopt_orphan(self, name: str) -> checkpoint_lib.Checkpoint:
        return self.master.adopt_orphan(name)

    @override
    def delete_orphan(self, name: str) -> checkpoint_lib.Orphan:
        return self.master.delete_orphan(name)


def _find_max_trials(overrides: Sequence[str]) -> int | None:
    """Returns the number of trials, if overrides set nothing else."""
    merged: dict[str, Any] = {}
    for text in overrides:
        merged = overrides_lib.merge(merged, overrides_lib.parse_assignment(text))
    searcher = merged.get("searcher")
    if set(merged) != {"searcher"} or not isinstance(searcher, Mapping):
        return None
    value = searcher.get("max_trials")
    return value if set(searcher) == {"max_trials"} and isinstance(value, int) else None
