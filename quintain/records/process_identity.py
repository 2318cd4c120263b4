"""How processes are told apart, also after the number of one was given to another.

The operating system hands out the numbers of processes again. A number together with the time at
which the process was started is unique.
"""

import os
import subprocess
import time
from typing import Final

from quintain.records import trial

_TOLERANCE_SECS: Final = 1.5
"""Start times may differ by so much: Linux computes them from the clock, which may be corrected."""


def find(pid: int, launch_id: str = "") -> trial.ProcessIdentity | None:
    """Returns the identity of a process, or None if there is none of this number.

    Args:
        pid: Number of the process.
        launch_id: Name to store in the identity.

    Example:
        >>> find(os.getpid()).pid == os.getpid()
        True
    """
    start_time = _find_start_time(pid)
    return None if start_time is None else trial.ProcessIdentity(pid, start_time, launch_id)


def is_alive(identity: trial.ProcessIdentity) -> bool:
    """Returns whether exactly this process is there, and has not ended.

    A process that has ended but was not yet collected by its parent counts as ended.
    """
    found = _find_start_time(identity.pid)
    return found is not None and abs(found - identity.start_time) < _TOLERANCE_SECS


def find_mark(pid: int) -> str | None:
    """Returns a text that no other process of this number has, or None if there is no process.

    Unlike the start time it stays the same if the clock is set. It is good for comparisons only.
    """
    if not os.path.exists("/proc/self/stat"):
        start_time = _find_start_time(pid)
        return None if start_time is None else repr(start_time)
    ticks = _read_start_ticks(pid)
    if ticks is None:
        return None
    with open("/proc/sys/kernel/random/boot_id", encoding="utf-8") as file:
        return f"{file.read().strip()} {ticks}"


def _find_start_time(pid: int) -> float | None:
    if pid <= 0:
        return None
    if os.path.exists("/proc/self/stat"):
        return _find_linux_start_time(pid)
    return _find_posix_start_time(pid)


def _find_linux_start_time(pid: int) -> float | None:
    ticks = _read_start_ticks(pid)
    if ticks is None:
        return None
    with open("/proc/stat", encoding="utf-8") as file:
        boot_time = next(int(line.split()[1]) for line in file if line.startswith("btime"))
    return boot_time + ticks / os.sysconf("SC_CLK_TCK")


def _read_start_ticks(pid: int) -> int | None:
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
            # The name of the program, the second field, may contain blanks and brackets.
            fields = file.read().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return None
    return None if fields[0] in "ZX" else int(fields[19])


def _find_posix_start_time(pid: int) -> float | None:
    done = subprocess.run(
        ["ps", "-o", "stat=,lstart=", "-p", str(pid)],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "LC_ALL": "C"},
    )
    state, _, text = done.stdout.strip().partition(" ")
    if not text or state.startswith("Z"):
        return None
    return time.mktime(time.strptime(text.strip(), "%a %b %d %H:%M:%S %Y"))
