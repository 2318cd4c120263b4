"""Where a trial's process gets its work from: a master, or a script in the same process."""

import abc

from quintain.records import trial, workload


class WorkloadSource(abc.ABC):
    """Gives a trial what to do, one workload at a time, and takes the results."""

    @abc.abstractmethod
    def start(self) -> trial.TrialSpec:
        """Returns all that has to be known to run the trial."""

    @abc.abstractmethod
    def report_damage(self, checkpoint: str, damage: str) -> trial.TrialSpec:
        """Tells that a checkpoint can't be used, and returns the trial with an older one.

        Args:
            checkpoint: The directory of the checkpoint.
            damage: What is wrong with it.

        Raises:
            CheckpointError: If it is another trial's, from which this one has to begin.
            GoneError: If this run of the trial is not wanted any more.
        """

    @abc.abstractmethod
    def next_workload(self) -> workload.Workload:
        """Returns what to do next; waits for it.

        Raises:
            GoneError: If this run of the trial is not wanted any more.
        """

    @abc.abstractmethod
    def report(self, result: workload.WorkloadResult) -> None:
        """Tells what came out of the workload that was given last.

        Raises:
            GoneError: If this run of the trial is not wanted any more.
        """

    @abc.abstractmethod
    def report_exit(self, reason: workload.ExitedReason, message: str) -> None:
        """Tells that the process ends by itself, and why.

        Args:
            reason: The kind of end.
            message: What the user is to know.
        """
