"""Identity of a process, which stays unique after its number was reused.

The operating system hands out the numbers of processes again. Linux gives each process the clock
ticks from the start of the machine to its own. Together with the number of that start (which
differs after each), the namespace in which process numbers are counted (which differs from
container to container) and the process number, they are unique. None of them changes if the clock
is set: times of day are for display.

Where there is no `/proc`, as on macOS, the second in which the process was started takes their
place, as the system noted it then.
"""

from __future__ import annotations

import functools
import os
import sys
import time
from typing import Final

from quintain.records import rows

_HAS_PROC: Final = os.path.exists("/proc/self/stat")


def find(pid: int, launch_id: str = "") -> rows.trial.ProcessIdentity | None:
    """Returns the identity of a process, or None if there is none of this number.

    Example:
        >>> find(os.getpid()).pid == os.getpid()
        True
    """
    if _HAS_PROC:
        ticks = _read_start_ticks(pid)
        start_time = None if ticks is None else _read_boot_time() + ticks / os.sysconf("SC_CLK_TCK")
    else:
        start_time = _find_posix_start_time(pid)
    mark = find_mark(pid)
    if start_time is None or mark is None:
        return None
    return rows.trial.ProcessIdentity(pid, start_time, launch_id, mark)


def is_alive(identity: rows.trial.ProcessIdentity) -> bool:
    """Returns whether exactly this process is there, and has not ended.

    A process that has ended but was not yet collected by its parent counts as ended.
    """
    return find_mark(identity.pid) == identity.mark


def find_mark(pid: int) -> str | None:
    """Returns a text that no other process of this number has, or None if there is no process.

    It stays the same whatever happens to the clock. It is good for comparisons only.
    """
    since = _read_start_ticks(pid) if _HAS_PROC else _find_posix_start_time(pid)
    return None if since is None else f"{find_place()} {since!r}"


@functools.cache
def find_place() -> str:
    """Returns the start of the machine and the namespace that this process is numbered in.

    It differs between machines, between two starts of a machine, and between containers.
    """
    if not _HAS_PROC:
        return sys.platform
    with open("/proc/sys/kernel/random/boot_id", encoding="utf-8") as file:
        boot_id = file.read().strip()
    return f"{boot_id} {os.stat('/proc/self/ns/pid').st_ino}"


def _read_start_ticks(pid: int) -> int | None:
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
            # The name of the program, the second field, may contain blanks and brackets.
            fields = file.read().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return None
    return None if fields[0] in "ZX" else int(fields[19])


def _read_boot_time() -> float:
    with open("/proc/stat", encoding="utf-8") as file:
        return float(next(line.split()[1] for line in file if line.startswith("btime")))


def _find_posix_start_time(pid: int) -> float | None:
    if pid <= 0:
        return None
    import calendar  # noqa: PLC0415 - where there is no /proc
    import subprocess  # noqa: PLC0415

    done = subprocess.run(
        ["ps", "-o", "stat=,lstart=", "-p", str(pid)],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "LC_ALL": "C", "TZ": "UTC"},
    )
    state, _, text = done.stdout.strip().partition(" ")
    if not text or state.startswith("Z"):
        return None
    return float(calendar.timegm(time.strptime(text.strip(), "%a %b %d %H:%M:%S %Y")))
