"""A cluster of processes on this machine: started, watched, restarted and stopped together.

Every process is the same command with another `TF_CONFIG`, the environment variable from which
TensorFlow learns the addresses of a cluster and which of its tasks the process is.
"""

import contextlib
import dataclasses
import json
import os
import pathlib
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Final

import click

from quintain.process import held_ports, told_again

SUPERVISOR_VARIABLE: Final = "QUINTAIN_SUPERVISOR_PID"
"""Environment variable that tells a process of the cluster who started it."""

EXIT_BAD_INPUT: Final = 2
INTERRUPTED_EXITS: Final = (128 + signal.SIGHUP, 128 + signal.SIGINT, 128 + signal.SIGTERM)
STOP_SECS: Final = 5.0
"""How long a process that is no longer needed has to end on SIGTERM before it gets SIGKILL."""

_LOOPBACK: Final = "127.0.0.1"
_POLL_SECS: Final = 0.1
_SETTLE_SECS: Final = 2.0
_IN_ORDER_SECS: Final = 300.0
_TAIL_LINES: Final = 15


@dataclasses.dataclass(frozen=True)
class ClusterTask:
    """One task of a cluster."""

    kind: str
    """`chief`, `worker` or `ps`."""

    index: int
    """Place among the tasks of its kind."""

    def __str__(self) -> str:
        return f"{self.kind} {self.index}"


def tf_config(addresses: Mapping[str, Sequence[str]], task: ClusterTask) -> str:
    """Returns the value of `TF_CONFIG` for one task."""
    cluster = {kind: list(hosts) for kind, hosts in addresses.items()}
    return json.dumps({"cluster": cluster, "task": {"type": task.kind, "index": task.index}})


def watch_supervisor() -> None:
    """Ends this process soon after the one that started it has died; for the started process.

    Otherwise a killed supervisor would leave a cluster behind that nobody stops. Does nothing in a
    process that no `LocalCluster` started.
    """
    supervisor = os.environ.get(SUPERVISOR_VARIABLE)
    if supervisor is None:
        return

    def watch() -> None:
        while os.getppid() == int(supervisor):
            time.sleep(1.0)
        os._exit(1)

    threading.Thread(target=watch, name="quintain-supervisor-watch", daemon=True).start()


def describe_end(code: int | None) -> str:
    """Returns how a process ended, by its exit code, which is negative for a signal."""
    if code is not None and code < 0:
        return f"was killed by {signal.Signals(-code).name}"
    return f"ended with exit code {code}"


class LocalCluster:
    """Runs one command as a cluster of processes, until it is done.

    The output of the leader goes where this process' own goes; that of every other task is added to
    a file `KIND-INDEX.log`. When a task dies, everything is stopped and started again, which is
    right for synchronous training: its workers can't go on without each other, and all resume from
    the last checkpoint. A task that exits with 2 was given bad input, which would only fail again.

    Example:
        >>> import tempfile
        >>> command = ["sh", "-c", 'test -n "$TF_CONFIG"']
        >>> LocalCluster(command, {"worker": 2}, log_dir=tempfile.mkdtemp()).run()
        0
    """

    def __init__(
        self,
        command: Sequence[str],
        num_tasks: Mapping[str, int],
        *,
        log_dir: str | os.PathLike[str],
        leader: ClusterTask | None = None,
        servers: Collection[str] = (),
        restarted_alone: Collection[str] = (),
        max_restarts: int = 3,
        environment: Mapping[str, str] | None = None,
        tell: Callable[[str], None] | None = None,
    ) -> None:
        """Stores what to run; nothing is started yet.

        Args:
            command: Program and arguments, the same for all tasks.
            num_tasks: Number of tasks by their kind, such as `{"worker": 2}`.
            log_dir: Directory of the log files; created if need be.
            leader: Task whose output is shown. Defaults to the chief, or else worker 0.
            servers: Kinds of tasks that never end by themselves: they are stopped when all others
                are done, and are not told of an interruption.
            restarted_alone: Kinds of tasks that can die without harm to the others. Such a task is
                started again at the same address.
            max_restarts: Restarts, of a task or of all, before giving up.
            environment: Variables to add to those of this process.
            tell: Takes messages for the user; standard error if None.
        """
        self._command = list(command)
        self._num_tasks = dict(num_tasks)
        self._log_dir = pathlib.Path(log_dir)
        self._leader = leader or ClusterTask("chief" if "chief" in num_tasks else "worker", 0)
        self._servers = frozenset(servers)
        self._restarted_alone = frozenset(restarted_alone)
        self._restarts_left = self._max_restarts = max_restarts
        self._environment = dict(environment or {})
        self._tell = tell or (lambda text: click.echo(text, err=True))
        self._addresses: dict[str, list[str]] = {}
        self._ports = contextlib.ExitStack()
        self._processes: dict[ClusterTask, subprocess.Popen[bytes]] = {}
        self._signal: signal.Signals | None = None
        self._is_signal_repeated = False

    @property
    def tasks(self) -> list[ClusterTask]:
        """All tasks, the leader first."""
        every = [
            ClusterTask(kind, index)
            for kind, count in self._num_tasks.items()
            for index in range(count)
        ]
        return sorted(every, key=lambda task: task != self._leader)

    @property
    def processes(self) -> dict[ClusterTask, "subprocess.Popen[bytes]"]:
        """The process of every task; empty before `run`."""
        return dict(self._processes)

    def log_path(self, task: ClusterTask) -> pathlib.Path:
        """Returns the file that the output of a task other than the leader goes to."""
        return self._log_dir / f"{task.kind}-{task.index}.log"

    def run(self) -> int:
        """Runs the cluster until it is done, has failed, or was stopped by a signal.

        SIGTERM and SIGINT are handed on to all tasks but the servers, which then end in order; a
        second signal ends them at once.

        Returns:
            Exit code: 0; 2 for bad input; 130 or 143 after SIGINT or SIGTERM; 1 if the cluster
            failed more than `max_restarts` times.
        """
        self._log_dir.mkdir(parents=True, exist_ok=True)
        with told_again.handled(self._note_signal):
            try:
                while True:
                    self._start_all()
                    code = self._supervise()
                    if code is not None:
                        return code
                    self._stop(self._processes)
            finally:
                self._stop(self._processes)
                self._ports.close()

    def _start_all(self) -> None:
        """Starts all tasks, each with a port that is kept for it, also while it starts again."""
        self._ports.close()
        self._addresses = {
            kind: [
                "{}:{}".format(*self._ports.enter_context(held_ports.hold(_LOOPBACK)).getsockname())
                for _ in range(count)
            ]
            for kind, count in self._num_tasks.items()
        }
        for task in self.tasks:
            self._start(task)

    def _start(self, task: ClusterTask) -> None:
        environment = {
            **os.environ,
            **self._environment,
            "TF_CONFIG": tf_config(self._addresses, task),
            SUPERVISOR_VARIABLE: str(os.getpid()),
        }
        with contextlib.ExitStack() as stack:
            output = None
            if task != self._leader:
                output = stack.enter_context(self.log_path(task).open("ab"))
            self._processes[task] = subprocess.Popen(
                self._command,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                # Ctrl-C in a terminal reaches this process only, which hands it on once.
                start_new_session=True,
            )

    def _supervise(self) -> int | None:
        """Waits for the end; returns the exit code, or None to start everything again."""
        is_told = False
        while True:
            if self._signal is not None and not is_told:
                is_told = True
                self._forward(self._signal)
            if self._is_signal_repeated:
                return 128 + int(self._signal or signal.SIGTERM)
            codes = {task: process.poll() for task, process in self._processes.items()}
            if all(code == 0 for task, code in codes.items() if task.kind not in self._servers):
                return 0
            failed = [task for task, code in codes.items() if self._has_failed(task, code)]
            if failed and not self._revive(failed):
                return self._conclude()
            time.sleep(_POLL_SECS)

    def _has_failed(self, task: ClusterTask, code: int | None) -> bool:
        return code is not None and (code != 0 or task.kind in self._servers)

    def _revive(self, failed: list[ClusterTask]) -> bool:
        """Starts tasks that may die again, if all of `failed` are such; returns whether it did."""
        if not all(task.kind in self._restarted_alone for task in failed):
            return False
        if self._signal is not None or len(failed) > self._restarts_left:
            return False
        for task in failed:
            if self._processes[task].returncode == EXIT_BAD_INPUT:
                return False
        for task in failed:
            self._restarts_left -= 1
            self._tell(
                f"{self._describe_end(task)} It is started again "
                f"(restart {self._max_restarts - self._restarts_left} of {self._max_restarts})."
            )
            self._start(task)
        return True

    def _conclude(self) -> int | None:
        """Decides what to do after a task has failed: an exit code, or None to start again."""
        # One failure makes the other workers fail as well: the cause may come second.
        self._wait(_SETTLE_SECS)
        codes = {task: process.poll() for task, process in self._processes.items()}
        failed = [task for task, code in codes.items() if self._has_failed(task, code)]
        bad = [task for task in failed if codes[task] == EXIT_BAD_INPUT]
        if bad:
            self._show_tail(self._leader if self._leader in bad else bad[0])
            return EXIT_BAD_INPUT
        if self._signal is not None or all(codes[task] in INTERRUPTED_EXITS for task in failed):
            return self._finish_interruption(codes[failed[0]])
        for task in failed:
            self._tell(self._describe_end(task))
        if self._restarts_left < 1:
            self._show_tail(failed[0])
            self._tell(f"Giving up after {self._max_restarts} restarts (--max-restarts).")
            return 1
        self._restarts_left -= 1
        self._tell(
            f"All {len(self._processes)} processes are started again from the last checkpoint "
            f"(restart {self._max_restarts - self._restarts_left} of {self._max_restarts})."
        )
        return None

    def _finish_interruption(self, code: int | None) -> int:
        """Waits until the others have saved, too; returns the exit code."""
        self._wait(_IN_ORDER_SECS)
        if self._signal is not None:
            return 128 + int(self._signal)
        return int(code or 1)

    def _wait(self, secs: float) -> None:
        """Waits until all but the servers have ended, for at most `secs` seconds."""
        deadline = time.monotonic() + secs
        waited = [one for task, one in self._processes.items() if task.kind not in self._servers]
        while any(process.poll() is None for process in waited):
            if time.monotonic() >= deadline or self._is_signal_repeated:
                return
            time.sleep(_POLL_SECS)

    def _forward(self, number: signal.Signals) -> None:
        for task, process in self._processes.items():
            if task.kind not in self._servers and process.poll() is None:
                process.send_signal(number)

    def _stop(self, processes: Mapping[ClusterTask, "subprocess.Popen[bytes]"]) -> None:
        """Ends what still runs: SIGTERM first, SIGKILL after `STOP_SECS` seconds."""
        running = [process for process in processes.values() if process.poll() is None]
        for process in running:
            process.terminate()
        deadline = time.monotonic() + STOP_SECS
        for process in running:
            try:
                process.wait(max(deadline - time.monotonic(), 0.0))
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()

    def _describe_end(self, task: ClusterTask) -> str:
        how = describe_end(self._processes[task].returncode)
        where = "" if task == self._leader else f" Its log is {self.log_path(task)}."
        return f"{str(task).capitalize()} {how}.{where}"

    def _show_tail(self, task: ClusterTask) -> None:
        if task == self._leader:
            return  # Its output has been shown.
        lines = self.log_path(task).read_text(errors="replace").splitlines()[-_TAIL_LINES:]
        self._tell("\n".join([f"The last lines of {self.log_path(task)}:", *lines]))

    def _note_signal(self, number: signal.Signals) -> None:
        self._is_signal_repeated = self._signal is not None
        self._signal = number
