"""Fork server: `python -m quintain.master.processes.fork_server`, whose copies become trials.

It imports what trials need, which takes seconds, and forks for each launch, which takes
milliseconds. It is its own process because a process may only be forked safely while it has one
thread and no device open: so it imports, and does nothing else. Threads that are ended before a
fork by the library that they belong to, as OpenBLAS does, or that the library can do without in the
copy, as jemalloc can, do no harm. If an import started another one, the server names the thread and
the import, and is not used.

Messages are lines of JSON over a socket:

| from the launcher | answer |
|---|---|
| (nothing, at the start) | `{"importing": "MODULE"}` before each import, then |
| | `{"hazard": "", "module": "", "missing": []}` |
| a `StartRequest` | a `ProcessIdentity` as a mapping, or `{"error": "..."}` |

A hazard says why forking is unsafe, and the module is the one to leave out to make it safe; it is
also the one to leave out if the server ends, or says nothing for long, while it imports it. In
place of a module, `MODULE:FUNCTION` calls a function.

It ends when the launcher closes the socket, also by dying. The trials go on.
"""

import argparse
import contextlib
import dataclasses
import faulthandler
import importlib
import json
import os
import signal
import socket
import sys
import threading
import traceback
import types
from collections.abc import Iterator
from typing import IO, Final, NoReturn, TextIO

from quintain.master.processes import huge_pages, supervisor
from quintain.process import process_end, start_up
from quintain.records.config import source_imports
from quintain.records.rows import exit_codes

_DEVICE_PREFIXES: Final = ("/dev/nvidia", "/dev/kfd", "/dev/dri")

_QUIET_VARIABLES: Final = {
    "JE_ARROW_MALLOC_CONF": "background_thread:false",  # pyarrow, which pandas imports
    "NUMEXPR_NUM_THREADS": "1",  # numexpr, which pandas imports
    "OPENBLAS_NUM_THREADS": "1",
}
"""Variables that keep libraries from starting threads when they are imported."""

_SAFE_THREADS: Final = frozenset({"jemalloc_bg_thd", "tf_graph_runner"})
"""Names of threads without which their library works in the copy. jemalloc has handlers for forks.
TensorFlow's is the only one of the device on which it computes constants while it builds graphs,
which on one thread it does in the thread that asks: this one is given nothing, ever."""


def main() -> None:
    """Imports the modules named on the command line, and forks as it is told."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--control", type=int, required=True)
    parser.add_argument("modules", nargs="*")
    arguments = parser.parse_args()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    huge_pages.forget()
    start_up.prepare()
    threads = NewThreads()
    with socket.socket(fileno=arguments.control) as control, control.makefile("rw") as messages:
        with _quiet_environment():
            missing = _import_all(arguments.modules, threads, messages)
        hazard = find_fork_hazard(threads)
        module = threads.find_module() if hazard else ""
        _send(messages, {"hazard": hazard, "module": module, "missing": missing})
        # Nobody waits for the supervisors; the kernel collects them.
        signal.signal(signal.SIGCHLD, signal.SIG_IGN)
        supervisors = _Supervisors(control)
        for line in messages:
            content = json.loads(line)
            request = supervisor.StartRequest(**{**content, "command": ()})
            _send(messages, supervisors.start(request))


class NewThreads:
    """Detects native threads, and the import that started each.

    Python tells before each import; a thread that is there then and was not before belongs to the
    import before.
    """

    def __init__(self) -> None:
        """Takes the threads that are there as known, with no import to blame."""
        self._origins = dict.fromkeys(_list_threads(), ("", ""))
        self._last_import = ("", "")
        self._module = ""
        self._is_watching = False
        sys.addaudithook(self._hear)

    def __enter__(self) -> "NewThreads":
        self._is_watching = True
        return self

    def __exit__(self, *unused: object) -> None:
        self._look()
        self._is_watching = False

    def begin(self, module: str) -> None:
        """Notes the module that is imported from now on."""
        self._look()
        self._module = module
        self._last_import = (module, module)

    def describe(self, thread: str) -> str:
        """Returns the name of a thread, and the import that started it if one did."""
        name = _read_thread_name(thread)
        origin, _ = self._origins.get(thread, ("", ""))
        return f"{name!r}, which the import of {origin} started" if origin else repr(name)

    def find_module(self) -> str:
        """Returns the module whose import started a thread that does harm, or an empty text."""
        found = (self._origins.get(thread, ("", ""))[1] for thread in _find_others())
        return next(found, "")

    def _hear(self, event: str, arguments: tuple[object, ...]) -> None:
        if event == "import" and self._is_watching:
            self._look()
            self._last_import = (str(arguments[0]), self._module)

    def _look(self) -> None:
        for thread in _list_threads():
            self._origins.setdefault(thread, self._last_import)


def find_fork_hazard(threads: NewThreads) -> str:
    """Returns why this process can't be forked safely, or an empty text."""
    with contextlib.suppress(OSError):
        if _find_others():
            _end_threads_by_fork()
        if others := _find_others():
            named = "; ".join(threads.describe(thread) for thread in others)
            return f"the imported modules started {len(others)} thread(s): {named}"
        for name in os.listdir("/proc/self/fd"):
            with contextlib.suppress(OSError):
                target = os.readlink(f"/proc/self/fd/{name}")
                if target.startswith(_DEVICE_PREFIXES):
                    return f"the imported modules opened {target}"
    return ""


def _list_threads() -> list[str]:
    try:
        return os.listdir("/proc/self/task")
    except OSError:  # Not Linux, where nothing is forked.
        return []


def _find_others() -> list[str]:
    """Returns the threads, except this one, that a copy could miss."""
    own = str(threading.get_native_id())
    return [
        thread
        for thread in _list_threads()
        if thread != own and _read_thread_name(thread) not in _SAFE_THREADS
    ]


def _read_thread_name(thread: str) -> str:
    with open(f"/proc/self/task/{thread}/comm", encoding="utf-8", errors="replace") as file:
        return file.read().strip()


def _end_threads_by_fork() -> None:
    """Forks a copy that ends at once: libraries with handlers for forks end their threads for it.

    They start them again when they need them.
    """
    pid = os.fork()
    if pid == 0:
        os._exit(0)
    os.waitpid(pid, 0)


@contextlib.contextmanager
def _quiet_environment() -> Iterator[None]:
    """Sets the variables that the user has not set, and takes them back: no trial sees them."""
    added = {name: text for name, text in _QUIET_VARIABLES.items() if name not in os.environ}
    os.environ.update(added)
    yield
    for name in added:
        os.environ.pop(name, None)


def _import_all(names: list[str], threads: NewThreads, messages: IO[str]) -> list[str]:
    missing = []
    with threads:
        for name in names:
            _send(messages, {"importing": name})
            threads.begin(name)
            module, _, function = name.partition(":")
            try:
                # Nobody looks for garbage among it, so that the copies share its pages.
                with start_up.without_collecting():
                    with source_imports.imports_noted(module):
                        imported = importlib.import_module(module)
                    if function:
                        getattr(imported, function)()
            except Exception:  # noqa: BLE001 - a trial that needs the module says so itself.
                traceback.print_exc()
                missing.append(name)
    return missing


def _send(messages: TextIO | IO[str], content: dict[str, object]) -> None:
    messages.write(json.dumps(content) + "\n")
    messages.flush()


class _Supervisors:
    """Copies of this process that watch over trial processes, each over one after the other.

    To make one and to end it takes as long as to make and end a trial process, so that one that has
    nothing left to watch over is given the next. All end when this process does.

    Args:
        control: Connection to the launcher, which must notice when this process dies: the copies
            have none of it.
    """

    def __init__(self, control: socket.socket) -> None:
        self._control = control
        self._idle: list[socket.socket] = []
        self._watching: list[socket.socket] = []

    def start(self, request: supervisor.StartRequest) -> dict[str, object]:
        """Starts a process; returns its identity, or an error."""
        for each in [each for each in self._watching if _has_ended(each)]:
            self._watching.remove(each)
            self._idle.append(each)
        line = (json.dumps(dataclasses.asdict(request)) + "\n").encode()
        answer = None
        while self._idle and answer is None:
            answer = self._ask(self._idle.pop(), line)
        if answer is None:
            answer = self._ask(self._fork(), line)
        if not answer or not answer.strip():
            return {"error": f"The process of launch {request.launch_id} could not be started."}
        content: dict[str, object] = json.loads(answer)
        return content

    def _ask(self, chosen: socket.socket, line: bytes) -> bytes | None:
        """Returns the answer of a supervisor; nothing if that ended over the request.

        Only one that was gone before it read the request is None: another may be asked.
        """
        try:
            chosen.sendall(line)
            answer = _read_line(chosen)
        except OSError:  # The system tells of what nobody has read.
            chosen.close()
            return None
        if answer.strip():
            self._watching.append(chosen)
        elif answer:
            self._idle.append(chosen)
        else:
            chosen.close()
        return answer

    def _fork(self) -> socket.socket:
        own, end = socket.socketpair()
        if os.fork() == 0:
            try:
                os.setsid()
                for each in (self._control, own, *self._idle, *self._watching):
                    os.close(each.detach())
                supervisor.serve(end, run_entry_point)
            except BaseException:  # noqa: BLE001 - a copy must not go on as the server.
                traceback.print_exc()
            finally:
                os._exit(0)
        end.close()
        return own


def _has_ended(chosen: socket.socket) -> bool:
    """Returns whether a supervisor's process has ended, or the supervisor itself."""
    try:
        return chosen.recv(1, socket.MSG_DONTWAIT) in (b"\n", b"")
    except BlockingIOError:
        return False
    except OSError:
        return True


def _read_line(chosen: socket.socket) -> bytes:
    """Returns a line, and nothing that comes after it; or nothing if there is no whole one."""
    line = b""
    while not line.endswith(b"\n"):
        if not (byte := chosen.recv(1)):
            return b""
        line += byte
    return line


def run_entry_point(entry_point: str) -> NoReturn:
    """Does what a fresh interpreter would do to run a function, and ends the process.

    Args:
        entry_point: `module:function`; the function takes nothing and returns the exit code.
    """
    sys.modules["__main__"] = types.ModuleType("__main__")
    sys.argv = [entry_point]
    for stream in (sys.stdout, sys.stderr):
        stream.reconfigure(line_buffering=True)  # type: ignore[union-attr]
    faulthandler.enable()
    process_end.leave(_call(entry_point))


def _call(entry_point: str) -> int:
    module, _, function = entry_point.partition(":")
    try:
        result = getattr(importlib.import_module(module), function)()
    except SystemExit as error:
        if error.code is None or isinstance(error.code, int):
            return error.code or 0
        print(error.code, file=sys.stderr)  # noqa: T201 - what the interpreter does.
        return exit_codes.ExitCode.ERROR
    except MemoryError:
        traceback.print_exc()
        return exit_codes.ExitCode.OUT_OF_MEMORY
    except BaseException:  # noqa: BLE001 - the last resort of a process.
        traceback.print_exc()
        return exit_codes.ExitCode.ERROR
    return int(result or 0)


if __name__ == "__main__":
    main()
