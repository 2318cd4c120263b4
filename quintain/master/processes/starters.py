"""Starters of processes: by copying a warm one, or by a fresh interpreter."""

import contextlib
import dataclasses
import json
import logging
import os
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Mapping, Sequence
from typing import IO, Any, Final

from quintain import errors
from quintain.master.processes import huge_pages, launch_environment, supervisor
from quintain.records.rows import trial

logger = logging.getLogger(__name__)

_IMPORT_SECS: Final = 180.0
"""Seconds after which an import of a fork server that has not ended is left to the trials."""

_START_SECS: Final = 60.0
"""Seconds after which a process that has not started is given up."""

_NUM_STDERR_BYTES: Final = 4000


class ForkUnsafeError(errors.ClusterError):
    """A process of these modules can't be forked safely."""

    def __init__(self, message: str, module: str = "") -> None:
        super().__init__(message)
        self.module = module


class _EndedByImportError(ConnectionError):
    """A fork server ended while it imported a module."""

    def __init__(self, module: str) -> None:
        super().__init__(f"it ended during the import of {module}")
        self.module = module


class SpawnStarter:
    """Starts a fresh interpreter for each process."""

    def __init__(self) -> None:
        self._supervisors: list[subprocess.Popen[str]] = []

    def start(self, request: supervisor.StartRequest) -> trial.ProcessIdentity:
        """Starts a process."""
        # Those that have ended are collected, so that they leave the table of processes.
        self._supervisors = [process for process in self._supervisors if process.poll() is None]
        process = subprocess.Popen(
            [sys.executable, "-m", "quintain.master.processes.supervisor"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
            text=True,
            env=launch_environment.of_children(),
        )
        self._supervisors.append(process)
        if process.stdin is None or process.stdout is None:
            raise errors.ClusterError("The supervisor of a process has no pipes.")
        with process.stdin, process.stdout:
            process.stdin.write(json.dumps(dataclasses.asdict(request)) + "\n")
            process.stdin.flush()
            answer = process.stdout.readline()
        if not answer:
            raise errors.ClusterError(
                f"The process of launch {request.launch_id} could not be started: "
                f"{' '.join(request.command)}"
            )
        return supervisor.parse_identity(answer)

    def close(self) -> None:
        """Collects what has ended."""
        for process in self._supervisors:
            # It ends with its process, which may outlive this one: nobody has to wait for it.
            process.poll()
            process.returncode = process.returncode or 0
        self._supervisors = []


class ForkStarter:
    """Copies a warm process.

    The warm process is started with the first request, or by `warm_up`; if it dies, it is started
    again.
    """

    def __init__(self, modules: Sequence[str], environment: Mapping[str, str]) -> None:
        self._modules = tuple(modules)
        self._environment = dict(environment)
        self._lock = threading.Lock()
        self._server: _Server | None = None

    def warm_up(self) -> None:
        """Starts the warm process, and returns without waiting for its imports."""
        with self._lock:
            if self._server is None:
                self._server = _Server(self._modules, self._environment)

    def start(self, request: supervisor.StartRequest) -> trial.ProcessIdentity:
        """Starts a process.

        Raises:
            ForkUnsafeError: If the modules start threads or open devices, or if one of them ends or
                holds up the process that imports them.
            ClusterError: If it can't be started.
        """
        with self._lock:
            try:
                answer = self._ask(request)
            except OSError as error:
                logger.warning("%s It is started again.", self._give_up(error))
                try:
                    answer = self._ask(request)
                except _EndedByImportError as again:
                    raise ForkUnsafeError(self._give_up(again), again.module) from again
                except OSError as again:
                    raise errors.ClusterError(self._give_up(again)) from again
        if "error" in answer:
            raise errors.ClusterError(str(answer["error"]))
        return trial.ProcessIdentity(**answer)

    def close(self) -> None:
        """Ends the warm process."""
        with self._lock:
            if self._server is not None:
                self._server.close()
                self._server = None

    def _ask(self, request: supervisor.StartRequest) -> dict[str, Any]:
        if self._server is None:
            self._server = _Server(self._modules, self._environment)
        return self._server.ask(dataclasses.asdict(request))

    def _give_up(self, error: OSError) -> str:
        stderr = "" if self._server is None else self._server.read_stderr()
        if self._server is not None:
            self._server.close()
            self._server = None
        return f"The fork server is gone ({error}).{' ' if stderr else ''}{stderr}"


class _Server:
    """A running fork server."""

    def __init__(self, modules: Sequence[str], environment: Mapping[str, str]) -> None:
        self._stderr: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115 - closed by `close`.
        self._control, server_end = socket.socketpair()
        with server_end:
            self._process = subprocess.Popen(
                [
                    sys.executable,
                    "-m",
                    "quintain.master.processes.fork_server",
                    f"--control={server_end.fileno()}",
                    *modules,
                ],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=self._stderr,
                pass_fds=[server_end.fileno()],
                start_new_session=True,
                env=huge_pages.ask({**launch_environment.of_children(), **environment}),
            )
        self._messages = self._control.makefile("rw")
        self._is_ready = False

    def ask(self, request: dict[str, Any]) -> dict[str, Any]:
        """Returns the answer to a request.

        Raises:
            ForkUnsafeError: If the server can't be forked.
            OSError: If the server is gone or does not answer.
        """
        if not self._is_ready:
            self._control.settimeout(_IMPORT_SECS)
            self._check(self._await_imports())
            self._is_ready = True
        self._control.settimeout(_START_SECS)
        self._messages.write(json.dumps(request) + "\n")
        self._messages.flush()
        return self._read()

    def read_stderr(self) -> str:
        """Returns the end of what the server wrote to standard error."""
        size = self._stderr.seek(0, os.SEEK_END)
        self._stderr.seek(max(0, size - _NUM_STDERR_BYTES))
        return self._stderr.read().decode("utf-8", "replace").strip()

    def close(self) -> None:
        """Ends the server."""
        # The buffer may hold a request that the server can't receive any more.
        with contextlib.suppress(OSError):
            self._messages.close()
        self._control.close()
        # A module that it imports may keep SIGTERM from ending it. It has nothing to tidy up.
        self._process.kill()
        self._process.wait()
        self._stderr.close()

    def _await_imports(self) -> dict[str, Any]:
        """Returns what the server says after its imports."""
        module = ""
        try:
            while "importing" in (message := self._read()):
                module = message["importing"]
        except TimeoutError as error:
            raise ForkUnsafeError(
                f"The import of {module} did not end within {_IMPORT_SECS:g} s.", module
            ) from error
        except OSError as error:
            if module:
                raise _EndedByImportError(module) from error
            raise
        return message

    def _check(self, greeting: dict[str, Any]) -> None:
        if greeting["missing"]:
            logger.warning(
                "Trials start slowly: the fork server could not import %s.\n%s",
                ", ".join(greeting["missing"]),
                self.read_stderr(),
            )
        if greeting["hazard"]:
            raise ForkUnsafeError(
                f"Processes can't be forked: {greeting['hazard']}.", greeting["module"]
            )

    def _read(self) -> dict[str, Any]:
        line = self._messages.readline()
        if not line:
            raise ConnectionError("it closed its socket")
        try:
            answer: dict[str, Any] = json.loads(line)
        except ValueError as error:
            raise ConnectionError(f"it said {line!r}") from error
        return answer
