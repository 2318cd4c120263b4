"""Source of a trial's workloads: a master, or a script in the same process."""

import abc
import pathlib

from quintain.records.rows import trial, workload
from quintain.storage import checkpoint_storage


class WorkloadSource(abc.ABC):
    """Gives a trial what to do, one workload at a time, and takes the results.

    Raises:
        GoneError: By any method, if this launch of the trial is not wanted any more.
        MasterUnreachableError: By any method, if a master is away for too long. A result is kept.
    """

    @abc.abstractmethod
    def start(self) -> trial.TrialSpec:
        """Returns all that has to be known to run the trial."""

    @abc.abstractmethod
    def open_storage(self, spec: trial.TrialSpec) -> checkpoint_storage.TrialStorage:
        """Returns where new checkpoints of a trial are kept."""

    @abc.abstractmethod
    def fetch_checkpoint(self, spec: trial.TrialSpec) -> pathlib.Path:
        """Returns a directory of this machine with the checkpoint that a trial goes on from.

        Raises:
            DamagedCheckpointError: If files are missing or are not what was written.
            CheckpointError: If the storage can't be read, which says nothing about the checkpoint.
        """

    @abc.abstractmethod
    def report_damage(self, checkpoint: str, damage: str) -> trial.TrialSpec:
        """Tells that a checkpoint can't be used, and returns the trial with an older one.

        Raises:
            CheckpointError: If it is another trial's, from which this one has to begin.
        """

    @abc.abstractmethod
    def next_workload(self) -> workload.Workload:
        """Returns what to do next; waits for it."""

    @abc.abstractmethod
    def report(self, result: workload.WorkloadResult) -> None:
        """Tells what came out of the workload that was given last."""

    def note_steps(self, number: int, batches: int) -> None:  # noqa: B027 - who listens overrides it
        """Tells how many batches of a workload are done; from another thread, and never raises."""

    @abc.abstractmethod
    def report_exit(self, reason: workload.ExitedReason, message: str) -> None:
        """Tells that the process ends by itself, and why."""
