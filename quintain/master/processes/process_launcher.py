"""Launcher of trials as processes of this machine."""

import contextlib
import dataclasses
import enum
import logging
import os
import signal
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from typing import Final

from typing_extensions import override

from quintain import errors
from quintain.files import disk_errors
from quintain.master.processes import (
    launch_environment,
    launcher,
    preloads,
    process_files,
    starters,
    supervisor,
)
from quintain.records import process_identity
from quintain.records.rows import log, trial
from quintain.records.rows import node as node_lib

logger = logging.getLogger(__name__)

_MOST_FORK_SERVERS: Final = 3

_NUM_LAST_LINES: Final = 20
_POLL_SECS: Final = 0.02
_VANISHED_SECS: Final = 3.0
"""A process that is gone for so long without a word of its supervisor has vanished."""


_ForkerKey = tuple[tuple[str, ...], tuple[tuple[str, str], ...]]


class StartMethod(enum.StrEnum):
    """Methods of starting a process."""

    FORK = "fork"
    """As copies of a process that has imported TensorFlow already, where that is safe."""

    SPAWN = "spawn"
    """By a fresh interpreter each."""


@dataclasses.dataclass
class _Tracked:
    """Launcher's state of one process."""

    trial_id: int
    identity: trial.ProcessIdentity
    files: process_files.ProcessFiles
    reader: process_files.LogReader
    confirmed_offset: int = 0
    was_killed: bool = False
    kill_deadline: float | None = None
    gone_since: float | None = None
    is_over: bool = False
    """Whether its exit is known: it only may have lines to read."""

    is_forgotten: bool = False
    """Whether its exit is kept elsewhere."""

    told: str = ""
    """What was said last of its files, which is not said again and again."""

    def tell(self, text: str) -> None:
        """Says what is wrong with its files; an empty text if nothing is."""
        if text and text != self.told:
            logger.error("%s", text)
        self.told = text

    def is_alive(self) -> bool:
        """Returns whether exactly this process is there and has not ended."""
        return process_identity.is_alive(self.identity)

    def send(self, number: signal.Signals) -> None:
        """Sends a signal to the process and what it started, if it is there."""
        if self.is_alive():
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self.identity.pid, number)


class ProcessLauncher(launcher.Launcher):
    """Starts trials as processes of this machine.

    Nothing is started before the first `start` or `warm_up`.

    Args:
        start_method: How to start processes. Forking is only done on Linux, and given up with a
            warning where it turns out to be unsafe.
        worker: Module with the function `main`, which is the trial process.
        preloaded: What was done in a process that is forked: modules that it finds imported, and
            functions that were called, as `module:function`.
        grace_secs: Seconds between SIGTERM and SIGKILL.
        idle_secs: Seconds after the end of the last process in which what they are forked from is
            kept, with the memory that it takes; None to keep it.
    """

    def __init__(
        self,
        *,
        start_method: StartMethod = StartMethod.FORK,
        worker: str = preloads.WORKER,
        preloaded: Sequence[str] = preloads.PRELOADED,
        grace_secs: float = 10.0,
        idle_secs: float | None = None,
    ) -> None:
        self._worker = worker
        self._preloaded = tuple(preloaded)
        self._grace_secs = grace_secs
        self._idle_secs, self._busy_at = idle_secs, time.monotonic()
        self._can_fork = start_method is StartMethod.FORK and sys.platform == "linux"
        self._spawner = starters.SpawnStarter()
        self._forkers: dict[_ForkerKey, starters.ForkStarter] = {}
        self._left_out: set[str] = set()
        self._tracked: dict[str, _Tracked] = {}
        self._unread: list[launcher.ProcessExit] = []
        self._lock = threading.RLock()
        self._slowness = ""

    @override
    def find_slowness(self) -> str:
        """Returns why processes can't be forked, or an empty text."""
        return self._slowness

    def warm_up(self, model_dir: str = "", variables: Mapping[str, str] | None = None) -> None:
        """Starts importing TensorFlow in the background, so that the first trial need not wait."""
        with self._lock:
            if self._can_fork:
                self._get_forker(model_dir, variables or {}).warm_up()

    def run_aside(
        self, request: supervisor.StartRequest, model_dir: str, is_canceled: threading.Event
    ) -> process_files.Exit:
        """Runs a process that is no trial, and returns how it ended.

        Args:
            request: What to start.
            model_dir: Directory with the user's code; empty if there is none.
            is_canceled: Ends the process, once it is set.

        Raises:
            ClusterError: If the process can't be started.
        """
        with self._lock:
            identity = self._start(request, model_dir, request.environment)
        files = process_files.ProcessFiles(request.scratch_dir, request.launch_id)
        tracked = _track(0, identity, files)
        while (found := self._find_exit(tracked)) is None:
            if is_canceled.wait(_POLL_SECS):
                tracked.send(signal.SIGKILL)
                time.sleep(_POLL_SECS)
        return found

    def start(self, launch: launcher.LaunchRequest) -> trial.ProcessIdentity:
        """Starts a process.

        The first one waits for the imports of the fork server.

        Raises:
            ClusterError: If the process can't be started.
            ValueError: If the name of the launch can't be part of a file name.
        """
        files = process_files.ProcessFiles(launch.scratch_dir, launch.launch_id)
        try:
            files.make_directory()
            with self._lock:
                identity = self._start_trial(launch)
                self._tracked[launch.launch_id] = _track(launch.trial_id, identity, files)
        except OSError as error:
            raise errors.ClusterError(
                f"The process of trial {launch.trial_id} could not be started: "
                f"{disk_errors.explain(error) or error}"
            ) from error
        return identity

    def adopt(
        self,
        launch_id: str,
        trial_id: int,
        identity: trial.ProcessIdentity | None,
        scratch_dir: str,
        node: str = node_lib.OWN,
    ) -> bool:
        """Takes over a process that another launcher started."""
        del node
        if identity is None:
            return False
        files = process_files.ProcessFiles(scratch_dir, launch_id)
        tracked = _track(trial_id, identity, files, files.read_offset())
        # Without a log there never was a supervisor.
        if not (tracked.is_alive() or files.log_path.exists() or files.read_exit() is not None):
            return False
        with self._lock:
            self._tracked[launch_id] = tracked
        return True

    def kill(self, launch_id: str) -> None:
        """Ends a process and all that it started."""
        with self._lock:
            tracked = self._tracked.get(launch_id)
            if tracked is None or tracked.is_over or tracked.was_killed:
                return
            tracked.was_killed = True
            tracked.kill_deadline = time.monotonic() + self._grace_secs
            tracked.send(signal.SIGTERM)

    def release(self, launch_id: str) -> None:
        """Lets go of a process that has ended, and of whose log somebody else took care."""
        with self._lock:
            tracked = self._tracked.get(launch_id)
            if tracked is not None and tracked.is_over:
                del self._tracked[launch_id]

    @override
    def forget(self, launch_id: str) -> None:
        with self._lock:
            if (tracked := self._tracked.get(launch_id)) is not None:
                tracked.is_forgotten = True

    def poll(self) -> list[launcher.ProcessExit]:
        """Returns the processes that have ended, as soon as their logs are nearly read."""
        with self._lock:
            exits = [*self._unread, *self.poll_ended()]
            is_due = [self._tracked[each.launch_id].reader.is_nearly_read for each in exits]
            self._unread = [each for each, due in zip(exits, is_due, strict=True) if not due]
            return [each for each, due in zip(exits, is_due, strict=True) if due]

    def poll_ended(self) -> list[launcher.ProcessExit]:
        """Returns the processes that have ended since the last call, for who reads logs itself."""
        with self._lock:
            exits = []
            for launch_id, tracked in self._tracked.items():
                if tracked.is_over:
                    continue
                try:
                    found = self._find_exit(tracked)
                except (OSError, ValueError, errors.QuintainError) as error:
                    # The files of one process must not keep others from being looked after.
                    tracked.tell(f"The end of {launch_id} can't be read: {error}")
                    found = None if tracked.is_alive() else process_files.Exit(None, None)
                if found is not None:
                    tracked.is_over = True
                    exits.append(
                        launcher.ProcessExit(
                            launch_id,
                            tracked.trial_id,
                            found.exit_code,
                            found.signal,
                            found.last_lines,
                            out_of_memory=found.out_of_memory and not tracked.was_killed,
                        )
                    )
            self._close_if_idle()
            return exits

    def read_logs(self) -> list[log.LogRow]:
        """Returns the lines that were written since the last call."""
        with self._lock:
            rows: list[log.LogRow] = []
            for launch_id, tracked in list(self._tracked.items()):
                try:
                    if tracked.is_forgotten and tracked.reader.is_at_end:
                        tracked.files.delete()
                        del self._tracked[launch_id]
                        continue
                    self._confirm(tracked)
                    rows += tracked.reader.read(is_over=tracked.is_over)
                except OSError as error:
                    tracked.tell(f"The log of {launch_id} can't be read: {error}")
                else:
                    tracked.tell("")
            return rows

    def close(self, *, kill: bool) -> None:
        """Ends the launcher. What `poll` and `read_logs` have not returned yet can still be had."""
        with self._lock:
            running = [it for it in self._tracked.values() if not it.is_over]
            if kill:
                for launch_id in list(self._tracked):
                    self.kill(launch_id)
                while any(self._find_exit(tracked) is None for tracked in running):
                    time.sleep(0.02)
            self._spawner.close()
            self._close_forkers()

    def _start_trial(self, launch: launcher.LaunchRequest) -> trial.ProcessIdentity:
        request = supervisor.StartRequest(
            launch_id=launch.launch_id,
            scratch_dir=launch.scratch_dir,
            environment={
                **launch.environment,
                **launch_environment.from_slots(launch.slots),
                "QUINTAIN_SCRATCH": launch.scratch_dir,
            },
            entry_point=f"{self._worker}:main",
            command=(sys.executable, "-u", "-X", "faulthandler", "-m", self._worker),
        )
        return self._start(request, launch.model_dir, launch.environment)

    def _start(
        self, request: supervisor.StartRequest, model_dir: str, environment: Mapping[str, str]
    ) -> trial.ProcessIdentity:
        while self._can_fork:
            try:
                return self._get_forker(model_dir, environment).start(request)
            except starters.ForkUnsafeError as error:
                self._leave_out(error)
        return self._spawner.start(request)

    def _leave_out(self, error: starters.ForkUnsafeError) -> None:
        """Leaves what keeps processes from being forked to the trials."""
        is_new = error.module not in {"", *self._left_out}
        self._left_out.add(error.module)
        self._can_fork = is_new and not self._left_out.issuperset(self._preloaded)
        self._slowness = f"{error} Each trial " + (
            f"begins without {error.module}." if self._can_fork else "gets a fresh interpreter."
        )
        logger.warning("%s", self._slowness)
        self._close_forkers()

    def _get_forker(self, model_dir: str, environment: Mapping[str, str]) -> starters.ForkStarter:
        wanted = preloads.find(self._preloaded, model_dir, environment)
        modules = tuple(name for name in wanted if name not in self._left_out)
        early = launch_environment.find_early(environment)
        key = (modules, tuple(early.items()))
        # The one that was used last is the last one.
        forker = self._forkers.pop(key, None) or starters.ForkStarter(modules, early)
        self._forkers[key] = forker
        if len(self._forkers) > _MOST_FORK_SERVERS:
            self._forkers.pop(next(iter(self._forkers))).close()
        return forker

    def _close_if_idle(self) -> None:
        now = time.monotonic()
        if self._idle_secs is None or not all(each.is_over for each in self._tracked.values()):
            self._busy_at = now
        elif self._forkers and now - self._busy_at > self._idle_secs:
            logger.info("What trials are forked from ends after %g s without any.", self._idle_secs)
            self._close_forkers()

    def _close_forkers(self) -> None:
        for forker in self._forkers.values():
            forker.close()
        self._forkers.clear()

    def _find_exit(self, tracked: _Tracked) -> process_files.Exit | None:
        if (found := tracked.files.read_exit()) is not None:
            return found
        if tracked.is_alive():
            tracked.gone_since = None
            if tracked.kill_deadline is not None and time.monotonic() > tracked.kill_deadline:
                tracked.send(signal.SIGKILL)
            return None
        now = time.monotonic()
        tracked.gone_since = now if tracked.gone_since is None else tracked.gone_since
        if now - tracked.gone_since < _VANISHED_SECS:
            return None
        return process_files.Exit(None, None, tracked.files.read_last_lines(_NUM_LAST_LINES))

    @staticmethod
    def _confirm(tracked: _Tracked) -> None:
        if tracked.reader.offset != tracked.confirmed_offset:
            tracked.files.write_offset(tracked.reader.offset)
            tracked.confirmed_offset = tracked.reader.offset


def _track(
    trial_id: int,
    identity: trial.ProcessIdentity,
    files: process_files.ProcessFiles,
    offset: int = 0,
) -> _Tracked:
    reader = process_files.LogReader(files, trial_id, offset)
    return _Tracked(trial_id, identity, files, reader, offset)
