"""Usage of processes: processor, memory, and GPUs where there are any.

Linux tells it in `/proc`, NVIDIA's driver by `nvidia-smi`. Where neither is, nothing is known.
"""

import csv
import dataclasses
import os
import subprocess
import time
from collections.abc import Collection
from typing import Final

_SMI_SECS: Final = 10.0
_MIB: Final = 2**20


@dataclasses.dataclass(frozen=True)
class Usage:
    """Usage of a process and all that it started."""

    cpu_secs: float
    """Seconds of a core so far, those of children that have ended included."""

    memory_bytes: int
    """Memory that they hold now. What several of them share counts for each."""

    age_secs: float
    """Seconds since the process was started."""


@dataclasses.dataclass(frozen=True)
class GpuUsage:
    """Usage of a GPU by all programs; None is what its driver does not tell."""

    percent: float | None
    """Part of the time in which it worked, in percent."""

    memory_bytes: int | None
    """Its memory that is in use."""


@dataclasses.dataclass(frozen=True)
class _Process:
    """A line of `/proc/PID/stat`."""

    parent: int
    session: int
    cpu_ticks: int
    start_ticks: int
    num_pages: int


def read(leaders: Collection[int]) -> dict[int, Usage]:
    """Returns what processes use now, by their numbers.

    Args:
        leaders: Numbers of processes that lead a session each, as those of trials do. To each
            belong the processes of its session, and those that descend from it.

    Example:
        >>> read([]) == {}
        True
    """
    if not leaders or not os.path.exists("/proc/self/stat"):
        return {}
    processes = {pid: found for pid in _list_pids() if (found := _read_process(pid)) is not None}
    members: dict[int, list[_Process]] = {pid: [] for pid in leaders if pid in processes}
    for pid, process in processes.items():
        owner = _find_owner(pid, processes, members)
        if owner is not None:
            members[owner].append(process)
    tick_secs, page_bytes = 1 / os.sysconf("SC_CLK_TCK"), os.sysconf("SC_PAGE_SIZE")
    since_boot_secs = time.clock_gettime(time.CLOCK_BOOTTIME)
    return {
        pid: Usage(
            cpu_secs=sum(each.cpu_ticks for each in group) * tick_secs,
            memory_bytes=sum(each.num_pages for each in group) * page_bytes,
            age_secs=since_boot_secs - processes[pid].start_ticks * tick_secs,
        )
        for pid, group in members.items()
    }


def _find_owner(pid: int, processes: dict[int, _Process], leaders: Collection[int]) -> int | None:
    """Returns to which of the leaders a process belongs, or None."""
    seen: set[int] = set()
    while pid in processes and pid not in seen:
        if pid in leaders:
            return pid
        if processes[pid].session in leaders:
            return processes[pid].session
        seen.add(pid)
        pid = processes[pid].parent
    return None


def _list_pids() -> list[int]:
    return [int(name) for name in os.listdir("/proc") if name.isdecimal()]


def _read_process(pid: int) -> _Process | None:
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
            # The name of the program, the second field, may contain blanks and brackets.
            fields = file.read().rpartition(")")[2].split()
    except OSError:  # It has ended.
        return None
    if not fields:
        return None
    return _Process(
        parent=int(fields[1]),
        session=int(fields[3]),
        cpu_ticks=sum(map(int, fields[11:15])),
        start_ticks=int(fields[19]),
        num_pages=int(fields[21]),
    )


def read_gpus() -> dict[str, GpuUsage]:
    """Returns what is in use of each GPU, by its number and by its UUID; empty if unknown."""
    columns = "index,uuid,utilization.gpu,memory.used"
    try:
        answer = subprocess.run(
            ["nvidia-smi", f"--query-gpu={columns}", "--format=csv,noheader,nounits"],
            capture_output=True,
            text=True,
            check=True,
            timeout=_SMI_SECS,
        ).stdout
    except (OSError, subprocess.SubprocessError):
        return {}
    found: dict[str, GpuUsage] = {}
    for row in csv.reader(answer.splitlines(), skipinitialspace=True):
        if len(row) == columns.count(",") + 1:
            memory = _to_number(row[3])
            usage = GpuUsage(_to_number(row[2]), None if memory is None else int(memory * _MIB))
            found[row[0]] = found[row[1]] = usage
    return found


def _to_number(text: str) -> float | None:
    """Returns a number, or None for `[N/A]` and the like."""
    try:
        return float(text)
    except ValueError:
        return None
