"""HTTP client of a trial's process. Every call is idempotent."""

# Declarations have no bodies; `call` gives them one.
# mypy: disable-error-code="empty-body"

from typing import Final

from quintain.client.call_table import call
from quintain.client.http import connection, http_calls
from quintain.records.rows import trial, workload

_RUNS: Final = "/trials/{trial_id}/runs"
_RUN: Final = f"{_RUNS}/{{launch_id}}"
_EXTRA_WAIT_SECS: Final = 30.0
"""Time for an answer beyond the time that the master was asked to wait."""

_CHECK_SECS: Final = 1800.0
"""Seconds that the master may take to read a checkpoint through."""


class WorkerClient(http_calls.HttpCalls):
    """The calls of one process, for one start of one trial.

    All raise `GoneError` if this start is not wanted any more, and `MasterUnreachableError` if the
    master is away for longer than the connection waits.
    """

    def __init__(self, connected: connection.Connection, *, trial_id: int, launch_id: str) -> None:
        super().__init__(connected, trial_id=trial_id, launch_id=launch_id)

    @call("POST", _RUNS, body="identity", is_repeatable=True)
    def start_run(self, identity: trial.ProcessIdentity) -> trial.TrialOrder:
        """Says that the process is there, and returns what it has to know."""

    @call("POST", f"{_RUN}/rendezvous", is_repeatable=True)
    def meet(self, rank: int, size: int, member: trial.Peer) -> list[trial.Peer] | None:
        """Says where the other processes of the trial reach this one.

        Args:
            rank: Number of this process.
            size: How many there are.
            member: Where it is.

        Returns:
            All of them by rank, or None while some have not come yet.
        """

    @call("POST", f"{_RUN}/damage", timeout_secs=_CHECK_SECS, is_repeatable=True, uuid="checkpoint")
    def report_damage(self, uuid: str, damage: str) -> trial.TrialOrder:
        """Says that a checkpoint can't be used, and returns the trial with an older one.

        Args:
            uuid: The checkpoint.
            damage: What is wrong with it.

        Raises:
            CheckpointError: If it is another trial's, from which this one has to begin.
        """

    @call("GET", f"{_RUN}/workload", timeout_secs=_EXTRA_WAIT_SECS, wait_secs="wait")
    def next_workload(self, wait_secs: float) -> workload.Workload | None:
        """Returns what to do next, or None if there was nothing to do yet.

        Args:
            wait_secs: Seconds that the master may wait for something to do.
        """

    @call("POST", f"{_RUN}/results", body="result", is_repeatable=True)
    def report(self, result: workload.WorkloadResult) -> workload.Workload | None:
        """Hands in what a workload gave. The master keeps the first result of each workload.

        Returns:
            What to do next; None if that has to be asked for.
        """

    @call("PUT", f"{_RUN}/wait", text="waits_for")
    def note_wait(self, text: str = "") -> None:
        """Says what the process waits for; an empty text if it goes on."""

    @call("PUT", f"{_RUN}/steps")
    def note_steps(self, number: int, batches: int) -> None:
        """Says how far a workload is.

        Args:
            number: The workload.
            batches: How many of its batches were trained on by now.
        """

    @call("POST", f"{_RUN}/exit", is_repeatable=True)
    def report_exit(self, reason: workload.ExitedReason, message: str = "") -> None:
        """Says why the process is about to end before it was told to.

        Args:
            reason: Kind of the reason.
            message: What the user should read.
        """
