"""Warm standby of a training: a second process that takes over when the first is killed.

The supervisor has imported TensorFlow and forks: first the process that trains, then a standby that
builds the model, compiles the loop and waits. When the one that trains dies by a signal, the other
goes on from the newest checkpoint, and the next standby is prepared.
"""

import contextlib
import os
import signal
import socket
import sys
import tempfile
import time
from collections.abc import Callable
from typing import IO, TYPE_CHECKING, Final

import click

from quintain import errors
from quintain.cli import tensorflow_import
from quintain.cli.training import local_cluster
from quintain.process import told_again

if TYPE_CHECKING:
    from quintain.checkpoints import memory_checkpoints
    from quintain.run import run_environment
    from quintain.settings import runtime_config

_POLL_SECS: Final = 0.02
_TAIL_LINES: Final = 20
_STRATEGIES: Final = ("one_device", "mirrored", "off")
_SIGNAL: Final = b"\n"
"""To a standby: take over. From a training: it has begun."""


class Turn:
    """Place of a training process, which trains at once or stands by.

    Args:
        connection: Connection to the supervisor; None if there is none.
        held: File for errors of a standby until it takes over; None for who trains at once.
        memory: Memory for checkpoints; None without a supervisor.
    """

    def __init__(
        self,
        connection: socket.socket | None = None,
        held: IO[bytes] | None = None,
        memory: "memory_checkpoints.SharedMemory | None" = None,
    ) -> None:
        self.memory = memory
        self._connection = connection
        self._held = held
        self._output: list[int] = []

    def check_runtime(self, runtime: "runtime_config.RuntimeConfig") -> None:
        """Checks that a second process finds room beside the one that trains.

        Raises:
            ConfigError: If it does not.
        """
        strategy = runtime.distribution_strategy
        if self._connection is not None and (runtime.num_gpus or strategy not in _STRATEGIES):
            raise errors.ConfigError(
                f"--standby: got runtime.distribution_strategy={strategy} and "
                f"runtime.num_gpus={runtime.num_gpus}, expected one process on CPUs: "
                f"{', '.join(_STRATEGIES)}, without GPUs, whose memory the first process holds."
            )

    def hold_output(self) -> None:
        """Keeps errors that a standby writes until it takes over, and drops its output."""
        if self._held is not None:
            sys.stdout.flush()
            sys.stderr.flush()
            self._output = [os.dup(1), os.dup(2)]
            with open(os.devnull, "wb") as null:
                os.dup2(null.fileno(), 1)
            os.dup2(self._held.fileno(), 2)

    def find_wait(self, environment: "run_environment.Environment") -> Callable[[], None] | None:
        """Returns a standby's `stand_by` of `RunOptions`; None for the first process."""

        def wait() -> None:
            assert self._connection is not None, "a standby has a supervisor"
            if not self._connection.recv(1):
                os._exit(1)  # The supervisor is dead.
            for number, original in enumerate(self._output, 1):
                os.dup2(original, number)
                os.close(original)
            environment.restart_clock()

        return None if self._held is None else wait

    def announced(self, start: Callable[[], None]) -> Callable[[], None]:
        """Returns `start`, after which the supervisor builds a standby from the settings."""
        connection = self._connection
        if connection is None:
            return start

        def start_and_tell() -> None:
            start()
            with contextlib.suppress(OSError):
                connection.send(_SIGNAL)

        return start_and_tell


class _Process:
    """A forked process, as its supervisor sees it."""

    def __init__(self, pid: int, connection: socket.socket, held: IO[bytes] | None) -> None:
        self.pid = pid
        self._connection = connection
        self._held = held
        self._code: int | None = None

    def poll(self) -> int | None:
        """Returns the exit code, negative for a signal; None while it runs."""
        if self._code is None:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            self._code = os.waitstatus_to_exitcode(status) if pid else None
        return self._code

    def has_begun(self) -> bool:
        """Returns whether its run has begun, which it says once."""
        try:
            return bool(self._connection.recv(1, socket.MSG_DONTWAIT))
        except OSError:
            return False

    def read_tail(self) -> list[str]:
        """Returns the last lines of a standby's errors."""
        if self._held is None:
            return []
        self._held.seek(0)
        return self._held.read().decode(errors="replace").splitlines()[-_TAIL_LINES:]

    def take_over(self) -> None:
        """Lets a standby train."""
        with contextlib.suppress(OSError):
            self._connection.send(_SIGNAL)

    def end(self) -> None:
        """Kills the process, if it still runs."""
        if self.poll() is None:
            os.kill(self.pid, signal.SIGKILL)
            os.waitpid(self.pid, 0)
        self._connection.close()
        if self._held is not None:
            self._held.close()


class Supervisor:
    """Keeps a training going by a standby.

    Args:
        model_dir: Directory of the run.
        max_restarts: Deaths after which it gives up, if no checkpoint was saved between them.
    """

    def __init__(self, model_dir: str, max_restarts: int) -> None:
        self._model_dir = model_dir
        self._left = self._max_restarts = max_restarts
        self._newest_step = -1
        self._memory: memory_checkpoints.SharedMemory | None = None
        self._training: _Process | None = None
        self._standby: _Process | None = None
        self._signal: int | None = None
        self._pending: list[int] = []

    def run(self) -> Turn | int:
        """Starts processes, in which it returns at once; returns the exit code in this one."""
        tensorflow_import.import_quietly()
        from quintain.checkpoints import memory_checkpoints
        from quintain.run import runner_factory, train_lib  # noqa: F401 - for all to have it

        self._memory = memory_checkpoints.SharedMemory()
        with told_again.handled(self._note_signal):
            try:
                return self._supervise()
            finally:
                if self._training is not None:  # Not in a process that was started.
                    self._training.end()
                    if self._standby is not None:
                        self._standby.end()

    def _supervise(self) -> Turn | int:
        started = self._fork(is_standby=False)
        while isinstance(started, _Process):
            self._training = started
            code = self._watch()
            if isinstance(code, Turn) or code >= 0:
                return code
            if self._signal is not None:
                return 128 + self._signal
            if not self._may_restart(code):
                return 1
            self._training.end()
            started, self._standby = self._standby or self._fork(is_standby=False), None
            if isinstance(started, _Process):
                started.take_over()
        return started

    def _watch(self) -> Turn | int:
        """Waits for the end of the training, with a standby; returns its exit code."""
        assert self._training is not None, "it was started"
        is_wanted = False
        while (code := self._training.poll()) is None:
            while self._pending:
                os.kill(self._training.pid, self._pending.pop(0))
            is_wanted = is_wanted or self._training.has_begun()
            if is_wanted and self._standby is None:
                started = self._fork(is_standby=True)
                if isinstance(started, Turn):
                    return started
                self._standby, is_wanted = started, False
            if self._standby is not None and (failed := self._standby.poll()) is not None:
                how = local_cluster.describe_end(failed)
                click.echo(f"The standby {how}. There is none until a restart.", err=True)
                if tail := self._standby.read_tail():
                    click.echo("\n".join(["Its last lines:", *tail]), err=True)
                self._standby.end()
                self._standby = None
            time.sleep(_POLL_SECS)
        return code

    def _may_restart(self, code: int) -> bool:
        from quintain.checkpoints import checkpoints

        how = local_cluster.describe_end(code)
        found = checkpoints.list_checkpoints(self._model_dir)[-1:]
        steps = [int(path.rpartition("-")[2]) for path in found]
        newest = max([*steps, self._memory.find_step() if self._memory else -1])
        if newest != self._newest_step:
            self._newest_step, self._left = newest, self._max_restarts
        if self._left < 1:
            click.echo(
                f"The training {how}. Giving up: no checkpoint was saved since "
                f"{self._max_restarts} restarts (--max-restarts).",
                err=True,
            )
            return False
        self._left -= 1
        successor = "Another process starts" if self._standby is None else "The standby takes over"
        click.echo(f"The training {how}. {successor}.", err=True)
        return True

    def _fork(self, *, is_standby: bool) -> Turn | _Process:
        own, end = socket.socketpair()
        held = tempfile.TemporaryFile() if is_standby else None  # noqa: SIM115 - it outlives this
        sys.stdout.flush()
        sys.stderr.flush()
        supervisor = os.getpid()
        if pid := os.fork():
            end.close()
            return _Process(pid, own, held)
        own.close()
        os.setsid()  # Ctrl-C in a terminal reaches the supervisor only, which hands it on once.
        os.environ[local_cluster.SUPERVISOR_VARIABLE] = str(supervisor)
        self._training = self._standby = None
        return Turn(end, held, self._memory)

    def _note_signal(self, number: signal.Signals) -> None:
        """Has a signal handed on to the process that trains."""
        self._signal = number
        self._pending.append(number)
