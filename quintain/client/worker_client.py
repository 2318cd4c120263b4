"""HTTP client of a trial's process. Every call is idempotent."""

from quintain.client.http import connection as connection_lib
from quintain.records.rows import codec, trial, workload

_EXTRA_WAIT_SECS = 30.0
"""Time for an answer beyond the time that the master was asked to wait."""

_CHECK_SECS = 1800.0
"""Seconds that the master may take to read a checkpoint through."""


class WorkerClient:
    """The calls of one process, for one start of one trial.

    Args:
        connection: Connection to the master.
        trial_id: The trial.
        launch_id: Name of this start.
    """

    def __init__(
        self, connection: connection_lib.Connection, *, trial_id: int, launch_id: str
    ) -> None:
        self._connection = connection
        self._runs_path = f"/api/v1/trials/{trial_id}/runs"
        self._run_path = f"{self._runs_path}/{launch_id}"

    def start_run(self, identity: trial.ProcessIdentity) -> trial.TrialOrder:
        """Says that the process is there, and returns what it has to know.

        Raises:
            GoneError: If this start is not wanted any more.
            MasterUnreachableError: If the master is away for longer than the connection waits.
        """
        answer = self._connection.request(
            "POST", self._runs_path, body=codec.to_plain(identity), is_repeatable=True
        )
        return codec.from_plain(trial.TrialOrder, answer)

    def meet(self, rank: int, size: int, member: trial.Peer) -> list[trial.Peer] | None:
        """Says where the other processes of the trial reach this one.

        Args:
            rank: Number of this process.
            size: How many there are.
            member: Where it is.

        Returns:
            All of them by rank, or None while some have not come yet.

        Raises:
            GoneError: If this start is not wanted any more.
            MasterUnreachableError: If the master is away for longer than the connection waits.
        """
        answer = self._connection.request(
            "POST",
            f"{self._run_path}/rendezvous",
            body={"rank": rank, "size": size, "member": codec.to_plain(member)},
            is_repeatable=True,
        )
        if answer is None:
            return None
        return [codec.from_plain(trial.Peer, each) for each in answer]

    def report_damage(self, uuid: str, damage: str) -> trial.TrialOrder:
        """Says that a checkpoint can't be used, and returns the trial with an older one.

        Args:
            uuid: The checkpoint.
            damage: What is wrong with it.

        Raises:
            CheckpointError: If it is another trial's, from which this one has to begin.
            GoneError: If this start is not wanted any more.
            MasterUnreachableError: If the master is away for longer than the connection waits.
        """
        answer = self._connection.request(
            "POST",
            f"{self._run_path}/damage",
            body={"checkpoint": uuid, "damage": damage},
            timeout_secs=_CHECK_SECS,
            is_repeatable=True,
        )
        return codec.from_plain(trial.TrialOrder, answer)

    def next_workload(self, wait_secs: float) -> workload.Workload | None:
        """Returns what to do next, or None if there was nothing to do yet.

        Args:
            wait_secs: Seconds that the master may wait for something to do.

        Raises:
            GoneError: If this start is not wanted any more.
            MasterUnreachableError: If the master is away for longer than the connection waits.
        """
        answer = self._connection.request(
            "GET",
            f"{self._run_path}/workload",
            query={"wait": wait_secs},
            timeout_secs=wait_secs + _EXTRA_WAIT_SECS,
        )
        return None if answer is None else codec.from_plain(workload.Workload, answer)

    def report(self, result: workload.WorkloadResult) -> workload.Workload | None:
        """Hands in what a workload gave. The master keeps the first result of each workload.

        Returns:
            What to do next; None if that has to be asked for.

        Raises:
            GoneError: If this start is not wanted any more.
            MasterUnreachableError: If the master is away for longer than the connection waits.
        """
        answer = self._connection.request(
            "POST", f"{self._run_path}/results", body=codec.to_plain(result), is_repeatable=True
        )
        return codec.from_plain(workload.Workload, answer) if answer else None

    def note_wait(self, text: str) -> None:
        """Says what the process waits for; an empty text if it goes on.

        Raises:
            GoneError: If this start is not wanted any more.
            MasterUnreachableError: If the master is away for longer than the connection waits.
        """
        body = {"waits_for": _to_valid(text)}
        self._connection.request("PUT", f"{self._run_path}/wait", body=body)

    def report_exit(self, reason: workload.ExitedReason, message: str) -> None:
        """Says why the process is about to end before it was told to.

        Args:
            reason: Kind of the reason.
            message: What the user should read.

        Raises:
            GoneError: If this start is not wanted any more.
            MasterUnreachableError: If the master is away for longer than the connection waits.
        """
        self._connection.request(
            "POST",
            f"{self._run_path}/exit",
            body={"reason": reason.value, "message": _to_valid(message)},
            is_repeatable=True,
        )


def _to_valid(text: str) -> str:
    """Returns a text without halves of characters, which names of files bring into messages."""
    return text.encode("utf-8", "backslashreplace").decode()
