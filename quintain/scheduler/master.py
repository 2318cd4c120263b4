"""The master: what experiments do, who holds which slot, and what trial processes are asked."""

import pathlib
from collections.abc import Mapping, Sequence
from typing import Any

from quintain.records import experiment, master_status, trial, workload
from quintain.scheduler import launcher as launcher_lib
from quintain.scheduler import slots as slots_lib


class Master:
    """Runs experiments. All methods may be called from several threads."""

    def __init__(
        self,
        store: Any,
        launcher: launcher_lib.Launcher,
        slots: Sequence[slots_lib.Slot],
        home: pathlib.Path,
        *,
        url: str = "",
        token: str = "",
    ) -> None:
        """Stores what the master works with.

        Args:
            store: Where everything is kept.
            launcher: Starts and ends processes.
            slots: What trials may use.
            home: Directory of the platform; model directories, checkpoints and scratch files.
            url: Address at which workers reach this master.
            token: What they authenticate with.
        """

    def start(self) -> None:
        """Takes up the experiments of the store, and their processes; then starts to schedule."""
        raise NotImplementedError

    def stop(self) -> None:
        """Stops scheduling. Processes go on; another master takes them over."""
        raise NotImplementedError

    def drain(self, experiment_id: int | None = None) -> None:
        """Pauses one experiment, or all, and waits until none of their processes runs."""
        raise NotImplementedError

    def create_experiment(
        self,
        config_text: str,
        model_dir: pathlib.Path | None,
        *,
        source: str = "config",
        overrides: Sequence[str] = (),
        parent_id: int | None = None,
        activate: bool = True,
    ) -> experiment.Experiment:
        """Creates an experiment."""
        raise NotImplementedError

    def pause(self, experiment_id: int) -> experiment.Experiment:
        raise NotImplementedError

    def activate(self, experiment_id: int) -> experiment.Experiment:
        raise NotImplementedError

    def cancel(self, experiment_id: int) -> experiment.Experiment:
        raise NotImplementedError

    def kill(self, experiment_id: int) -> experiment.Experiment:
        raise NotImplementedError

    def archive(self, experiment_id: int) -> experiment.Experiment:
        raise NotImplementedError

    def unarchive(self, experiment_id: int) -> experiment.Experiment:
        raise NotImplementedError

    def delete(self, experiment_id: int) -> experiment.Experiment:
        """Deletes an ended experiment with all its files; returns its last record."""
        raise NotImplementedError

    def update_experiment(
        self,
        experiment_id: int,
        *,
        description: str | None = None,
        labels: Sequence[str] | None = None,
        weight: float | None = None,
        max_slots: int | None = None,
        priority: int | None = None,
        max_trials: int | None = None,
        checkpoint_storage: Mapping[str, int] | None = None,
    ) -> experiment.Experiment:
        """Changes what may be changed; `max_slots=0` removes the limit."""
        raise NotImplementedError

    def kill_trial(self, trial_id: int) -> trial.Trial:
        raise NotImplementedError

    def rerun_trial(self, trial_id: int) -> experiment.Experiment:
        """Creates an experiment of one trial, with the hyperparameters and seed of this one."""
        raise NotImplementedError

    def fork(
        self,
        experiment_id: int,
        config_text: str | None = None,
        *,
        model_dir: pathlib.Path | None = None,
        overrides: Sequence[str] = (),
        activate: bool = True,
    ) -> experiment.Experiment:
        """Creates an experiment from another one; what is not given is taken from that."""
        raise NotImplementedError

    def continue_experiment(
        self, experiment_id: int, overrides: Sequence[str] = ()
    ) -> experiment.Experiment:
        """Takes up an ended experiment again, under the same number."""
        raise NotImplementedError

    def delete_checkpoint(self, uuid: str) -> Any:
        """Deletes the files of a checkpoint; returns its record."""
        raise NotImplementedError

    def start_run(self, trial_id: int, identity: trial.ProcessIdentity) -> trial.TrialSpec:
        """Returns what a process that was just started, or lost the master, has to know."""
        raise NotImplementedError

    def next_workload(self, trial_id: int, launch_id: str, wait: float) -> workload.Workload | None:
        """Returns the next workload, or None if there is none within `wait` seconds."""
        raise NotImplementedError

    def report(self, trial_id: int, launch_id: str, result: workload.WorkloadResult) -> None:
        """Takes a result; the same one twice is no error."""
        raise NotImplementedError

    def report_exit(
        self, trial_id: int, launch_id: str, reason: workload.ExitedReason, message: str
    ) -> None:
        """Takes the reason of a process that ends by itself."""
        raise NotImplementedError

    def status(self) -> master_status.MasterStatus:
        """Returns who holds which slot, and how far experiments are."""
        raise NotImplementedError
