"""`python -m quintain.scheduler.fork_server`: a warm process whose copies become trials.

It imports what trials need, which takes seconds, and forks for each launch, which takes
milliseconds. It is its own process because a process may only be forked safely while it has one
thread and no device open: so it imports, and does nothing else. If an import
started a thread, it says so, and is not used.

Messages are lines of JSON over a socket:

| from the launcher | answer |
|---|---|
| (nothing, at the start) | `{"fault": "", "missing": []}`; a fault says why forking is unsafe |
| a `StartRequest` | a `ProcessIdentity` as a mapping, or `{"error": "..."}` |

It ends when the launcher closes the socket, also by dying. The trials go on.
"""

import argparse
import contextlib
import faulthandler
import gc
import importlib
import json
import os
import signal
import socket
import sys
import traceback
import types
from typing import IO, Final, NoReturn, TextIO

from quintain import process_end
from quintain.records import exit_codes
from quintain.scheduler import supervisor

_DEVICE_PREFIXES: Final = ("/dev/nvidia", "/dev/kfd", "/dev/dri")


def main() -> None:
    """Imports the modules named on the command line, and forks as it is told."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--control", type=int, required=True)
    parser.add_argument("modules", nargs="*")
    arguments = parser.parse_args()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    missing = _import_all(arguments.modules)
    # The copies share the pages of what is there now, and never look for garbage among it.
    gc.collect()
    gc.freeze()
    with socket.socket(fileno=arguments.control) as control, control.makefile("rw") as messages:
        _send(messages, {"fault": find_fork_fault(), "missing": missing})
        # Nobody waits for the supervisors; the kernel collects them.
        signal.signal(signal.SIGCHLD, signal.SIG_IGN)
        for line in messages:
            content = json.loads(line)
            request = supervisor.StartRequest(**{**content, "command": ()})
            _send(messages, _fork(request, control))


def find_fork_fault() -> str:
    """Returns why this process can't be forked safely, or an empty text."""
    with contextlib.suppress(OSError):
        num_threads = len(os.listdir("/proc/self/task"))
        if num_threads > 1:
            return f"the imported modules started {num_threads - 1} threads"
        for name in os.listdir("/proc/self/fd"):
            with contextlib.suppress(OSError):
                target = os.readlink(f"/proc/self/fd/{name}")
                if target.startswith(_DEVICE_PREFIXES):
                    return f"the imported modules opened {target}"
    return ""


def _import_all(names: list[str]) -> list[str]:
    missing = []
    for name in names:
        try:
            importlib.import_module(name)
        except Exception:  # noqa: BLE001 - a trial that needs the module says so itself.
            traceback.print_exc()
            missing.append(name)
    return missing


def _send(messages: TextIO | IO[str], content: dict[str, object]) -> None:
    messages.write(json.dumps(content) + "\n")
    messages.flush()


def _fork(request: supervisor.StartRequest, control: socket.socket) -> dict[str, object]:
    told, telling_end = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            os.setsid()
            os.close(told)
            # The launcher must notice when the fork server dies, whatever becomes of its copies.
            os.close(control.detach())
            supervisor.supervise(request, telling_end, lambda: run_entry_point(request.entry_point))
        except BaseException:  # noqa: BLE001 - a copy must not go on as the server.
            traceback.print_exc()
        finally:
            os._exit(0)
    os.close(telling_end)
    with os.fdopen(told, encoding="utf-8") as file:
        answer = file.read()
    if not answer:
        return {"error": f"The process of launch {request.launch_id} could not be started."}
    content: dict[str, object] = json.loads(answer)
    return content


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
