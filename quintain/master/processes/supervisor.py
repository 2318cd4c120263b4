"""Supervisor of a trial process: keeps its output, and its exit, in files.

Each trial process has a supervisor as its parent, a small process without threads. It outlives the
master and the fork server, so that no line and no exit code is lost when they die. It dies only
after its process; if it is killed, the kernel kills the process as well. When its process has ended
it takes the next, as long as there is a fork server to give it one.

`python -m quintain.master.processes.supervisor` reads a `StartRequest` from standard input, starts
a fresh interpreter for it, and answers with the identity on standard output.
"""

import collections
import contextlib
import ctypes
import dataclasses
import json
import os
import selectors
import signal
import socket
import sys
import time
import traceback
from collections.abc import Callable
from typing import Final, NoReturn

from quintain.client.home import handed_tokens
from quintain.master.processes import process_files
from quintain.records import process_identity
from quintain.records.rows import exit_codes, log, trial

_NUM_LAST_LINES: Final = 20
_MOST_LINE_BYTES: Final = 2**16
_MOST_KEPT_BYTES: Final = 2**20
"""Bytes of lines that find no room on a full disk and are kept until there is."""

_DRAIN_SECS: Final = 1.0
_MOST_LATE_BYTES: Final = 2**21
"""Bytes that are read after that time at most: what two pipes hold."""

_POLL_SECS: Final = 0.05
_PR_SET_PDEATHSIG: Final = 1
_OOM_SCORE: Final = "500"
"""If memory is short, trials are killed rather than the master."""


@dataclasses.dataclass(frozen=True)
class StartRequest:
    """Request to start a process."""

    launch_id: str
    """Name of the launch."""

    scratch_dir: str
    """Directory of the files."""

    environment: dict[str, str]
    """Variables to add."""

    entry_point: str
    """`module:function` to call in a forked process; it takes nothing and returns the exit code."""

    command: tuple[str, ...] = ()
    """Program and arguments, where a fresh process is to be started instead."""


def serve(control: socket.socket, become: Callable[[str], NoReturn]) -> None:
    """Starts one process after the other and watches over it, until nobody can ask for more.

    The caller must be a process of its own with nothing else to do. Each line that comes is a
    `StartRequest`. Its answer is the identity of the process, as a line of JSON; an empty line
    follows when the process has ended, or comes instead if it could not be started.

    Args:
        control: Connection to who asks.
        become: Becomes the process with the given entry point; does not return.
    """
    with control.makefile("r", encoding="utf-8") as requests:
        for line in requests:
            request = StartRequest(**{**json.loads(line), "command": ()})

            def run(entry_point: str = request.entry_point) -> NoReturn:
                os.close(control.detach())
                become(entry_point)

            supervise(request, os.dup(control.fileno()), run)
            with contextlib.suppress(OSError):  # Who asked may be gone.
                control.sendall(b"\n")


def supervise(
    request: StartRequest,
    answer_descriptor: int,
    run: Callable[[], NoReturn],
) -> None:
    """Starts the process and stays until it has ended.

    The caller must be a process of its own with nothing else to do. It is detached from the
    terminal and from the signals that are meant for its parents.

    Args:
        request: What to start.
        answer_descriptor: File to which the identity is written, as one line of JSON. Closed.
        run: Becomes the new process; does not return.
    """
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    files = process_files.ProcessFiles(request.scratch_dir, request.launch_id)
    files.make_directory()
    num_kills = count_oom_kills()
    stdout, stdout_end = os.pipe()
    stderr, stderr_end = os.pipe()
    told, telling_end = os.pipe()
    parent = os.getpid()
    pid = os.fork()
    if pid == 0:
        try:
            os.close(answer_descriptor)
            for descriptor in (stdout, stderr, told):
                os.close(descriptor)
            _become_worker(request, parent, (stdout_end, stderr_end), telling_end)
            run()
        except BaseException:  # noqa: BLE001 - the process must not go on as its parent's copy.
            traceback.print_exc()
        finally:
            os._exit(exit_codes.ExitCode.ERROR)
    for descriptor in (stdout_end, stderr_end, telling_end):
        os.close(descriptor)
    with os.fdopen(told, "rb") as file:
        identity = file.read()
    with contextlib.suppress(OSError):
        os.write(answer_descriptor, identity)
    os.close(answer_descriptor)
    with open(os.devnull, "r+b", buffering=0) as null:
        for descriptor in (0, 1, 2):
            os.dup2(null.fileno(), descriptor)
    try:
        _watch(files, pid, (stdout, stderr), num_kills)
    finally:
        os.close(stdout)
        os.close(stderr)


def _become_worker(
    request: StartRequest, parent: int, outputs: tuple[int, int], telling_end: int
) -> None:
    os.setsid()
    _die_with_parent(parent)
    with contextlib.suppress(OSError), open("/proc/self/oom_score_adj", "w") as file:
        file.write(_OOM_SCORE)
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    with open(os.devnull, "rb", buffering=0) as null:
        os.dup2(null.fileno(), 0)
    for standard, descriptor in zip((1, 2), outputs, strict=True):
        os.dup2(descriptor, standard)
        os.close(descriptor)
    identity = process_identity.find(os.getpid(), request.launch_id)
    if identity is None:
        raise RuntimeError("The system does not know its own process.")
    os.environ.update(request.environment)
    os.write(telling_end, (json.dumps(dataclasses.asdict(identity)) + "\n").encode())
    os.close(telling_end)


def _die_with_parent(parent: int) -> None:
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:
            os._exit(exit_codes.ExitCode.ERROR)


class _LineSplitter:
    """Makes lines of the bytes of one stream."""

    def __init__(self, source: log.LogSource) -> None:
        self.source = source
        self._rest = b""

    def split(self, data: bytes) -> list[str]:
        """Returns the lines that are complete now; no data completes the last one."""
        if not data:
            lines, self._rest = [self._rest] if self._rest else [], b""
        else:
            *lines, self._rest = (self._rest + data).split(b"\n")
            # A progress bar overwrites its line: what is kept is what would be seen at the end.
            self._rest = self._rest[self._rest.rfind(b"\r", 0, -1) + 1 :]
            if len(self._rest) > _MOST_LINE_BYTES:
                lines.append(self._rest)
                self._rest = b""
        return [_to_text(line) for line in lines]


def _to_text(line: bytes) -> str:
    return line.rstrip(b"\r").rpartition(b"\r")[2].decode("utf-8", "replace")


def _watch(
    files: process_files.ProcessFiles, pid: int, outputs: tuple[int, int], num_kills: int
) -> None:
    last_lines: collections.deque[str] = collections.deque(maxlen=_NUM_LAST_LINES)
    with contextlib.ExitStack() as stack:
        log_file = stack.enter_context(contextlib.closing(LogFile(files.log_path)))
        selector = stack.enter_context(selectors.DefaultSelector())
        for source, descriptor in zip(
            (log.LogSource.STDOUT, log.LogSource.STDERR), outputs, strict=True
        ):
            selector.register(descriptor, selectors.EVENT_READ, _LineSplitter(source))
        if hasattr(os, "pidfd_open"):
            end_event = os.pidfd_open(pid)
            stack.callback(os.close, end_event)
            selector.register(end_event, selectors.EVENT_READ, None)
        ended = _follow(selector, pid, log_file, last_lines)
    exit_code, number = ended or (None, None)
    is_short = number == signal.SIGKILL and count_oom_kills() > num_kills
    is_short = is_short or exit_code == exit_codes.ExitCode.OUT_OF_MEMORY
    # Without room for it, the process counts as lost, which is held against nobody.
    with contextlib.suppress(OSError):
        files.write_exit(process_files.Exit(exit_code, number, tuple(last_lines), is_short))
    with contextlib.suppress(ChildProcessError):
        os.waitpid(pid, 0)


def _follow(
    selector: selectors.BaseSelector,
    pid: int,
    log_file: "LogFile",
    last_lines: collections.deque[str],
) -> tuple[int | None, int | None] | None:
    """Keeps lines until the process has ended and nobody can write more, and returns its end."""
    ended: tuple[int | None, int | None] | None = None
    deadline = float("inf")
    is_told = any(key.data is None for key in selector.get_map().values())
    num_late_bytes = 0
    while ended is None or len(selector.get_map()) > 0:
        ready = selector.select(None if is_told and ended is None else _POLL_SECS)
        is_late = time.monotonic() > deadline
        if is_late and (not ready or num_late_bytes > _MOST_LATE_BYTES):
            break
        for key, _ in ready:
            if key.data is None:
                selector.unregister(key.fd)
                continue
            data = os.read(key.fd, _MOST_LINE_BYTES)
            num_late_bytes += len(data) if is_late else 0
            lines = key.data.split(data)
            last_lines.extend(lines)
            log_file.append(key.data.source, lines)
            if not data:
                selector.unregister(key.fd)
        if ended is None and (ended := _find_end(pid)) is not None:
            # What it started must not outlive it, nor keep its pipes open.
            with contextlib.suppress(OSError):
                os.killpg(pid, signal.SIGKILL)
            deadline = time.monotonic() + _DRAIN_SECS
    return ended


class LogFile:
    """Appends lines, whole ones only; those that find no room on a full disk are kept for later."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self._descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        self._rest = b""
        self._num_lost = 0
        self._last_secs = 0.0

    def append(self, source: log.LogSource, lines: list[str]) -> None:
        """Appends lines to those that were kept; beyond a limit they are lost, and counted.

        No two lines have the same time, so that each is recognised if it is read again.
        """
        self._write()
        if len(self._rest) >= _MOST_KEPT_BYTES:
            self._num_lost += len(lines)
            return
        if self._num_lost:
            text = f"{self._num_lost} lines omitted: the disk was full."
            self._num_lost = 0
            self._rest += self._format(log.LogSource.MASTER, text)
        self._rest += b"".join(self._format(source, line) for line in lines)
        self._write()

    def _format(self, source: log.LogSource, line: str) -> bytes:
        now_secs = time.time()
        if self._last_secs - 1.0 < now_secs <= self._last_secs:
            now_secs = self._last_secs + 1e-6
        self._last_secs = now_secs
        return (json.dumps([round(now_secs, 6), source.value, line]) + "\n").encode()

    def close(self) -> None:
        """Writes what was kept, if there is room now, and closes the file."""
        self.append(log.LogSource.STDOUT, [])
        os.close(self._descriptor)

    def _write(self) -> None:
        # A full disk must not end a training.
        with contextlib.suppress(OSError):
            while self._rest:
                self._rest = self._rest[os.write(self._descriptor, self._rest) :]


def _find_end(pid: int) -> tuple[int | None, int | None] | None:
    """Returns (exit code, signal) once a child has ended; leaves its number reserved if it can."""
    if hasattr(os, "waitid"):
        found = os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        if found is None:
            return None
        if found.si_code == os.CLD_EXITED:
            return found.si_status, None
        return None, found.si_status
    done, status = os.waitpid(pid, os.WNOHANG)
    if done == 0:
        return None
    code = os.waitstatus_to_exitcode(status)
    return (code, None) if code >= 0 else (None, -code)


def count_oom_kills() -> int:
    """Returns how many processes the kernel has killed so far because memory was short."""
    with contextlib.suppress(OSError), open("/proc/vmstat", encoding="utf-8") as file:
        for line in file:
            name, _, number = line.partition(" ")
            if name == "oom_kill":
                return int(number)
    return 0


def parse_identity(text: str) -> trial.ProcessIdentity:
    """Returns the identity that `supervise` answered with."""
    return trial.ProcessIdentity(**json.loads(text))


def main() -> None:
    """Starts a fresh process for the request on standard input."""
    content = json.loads(sys.stdin.readline())
    request = StartRequest(**{**content, "command": tuple(content["command"])})
    answer = os.dup(1)

    def run() -> NoReturn:
        environment = dict(os.environ)
        handed_tokens.hide(environment)
        os.execvpe(request.command[0], request.command, environment)

    supervise(request, answer, run)


if __name__ == "__main__":
    main()
