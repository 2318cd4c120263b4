"""Usage meter of this machine's processes: those of a master, or of an agent."""

import dataclasses
import time
from collections.abc import Callable, Collection, Iterable
from typing import Final

from quintain.master.processes import process_usage
from quintain.records import process_identity
from quintain.records.rows import trial

SAMPLE_SECS: Final = 10.0
"""Between two samples of a process passes at least as much."""

_LEAST_AGE_SECS: Final = 1.0


@dataclasses.dataclass(frozen=True)
class Process:
    """A process to measure."""

    name: str
    """Name of its launch."""

    identity: trial.ProcessIdentity
    """The process."""

    devices: tuple[str, ...] = ()
    """GPUs that it holds."""


@dataclasses.dataclass(frozen=True)
class _Sample:
    """Last measurement of a process."""

    clock_secs: float
    cpu_secs: float


class UsageMeter:
    """Measures processes. `measure` is called by one thread only.

    Args:
        read: Returns what processes use.
        read_gpus: Returns what is in use of GPUs; only asked where processes hold some.
        clock: Seconds that only go up.
        sample_secs: Seconds between two samples of a process.
    """

    def __init__(
        self,
        *,
        read: Callable[[Collection[int]], dict[int, process_usage.Usage]] = process_usage.read,
        read_gpus: Callable[[], dict[str, process_usage.GpuUsage]] = process_usage.read_gpus,
        clock: Callable[[], float] = time.monotonic,
        sample_secs: float = SAMPLE_SECS,
    ) -> None:
        self._read = read
        self._read_gpus = read_gpus
        self._clock = clock
        self._sample_secs = sample_secs
        self._last: dict[str, _Sample] = {}

    def measure(self, processes: Iterable[Process]) -> dict[str, dict[str, float]]:
        """Returns what those that are due use since they were measured last, by name."""
        running = {each.identity.pid: each for each in processes}
        names = {each.name for each in running.values()}
        self._last = {name: last for name, last in self._last.items() if name in names}
        due = {pid: each for pid, each in running.items() if self._is_due(each)}
        if not due:
            return {}
        usages = self._read(due)
        gpus = self._read_gpus() if any(each.devices for each in due.values()) else {}
        return {
            each.name: {**self._describe(each, usages[pid]), **_describe_gpus(each.devices, gpus)}
            for pid, each in due.items()
            if pid in usages and usages[pid].age_secs >= _LEAST_AGE_SECS
        }

    def _is_due(self, process: Process) -> bool:
        last = self._last.get(process.name)
        is_due = last is None or self._clock() - last.clock_secs >= self._sample_secs
        # Its number may be another process's by now.
        return is_due and process_identity.is_alive(process.identity)

    def _describe(self, process: Process, usage: process_usage.Usage) -> dict[str, float]:
        now, last = self._clock(), self._last.get(process.name)
        self._last[process.name] = _Sample(now, usage.cpu_secs)
        secs = usage.age_secs if last is None else now - last.clock_secs
        # A child that nobody waited for takes its seconds along.
        cpu_secs = max(usage.cpu_secs - (0.0 if last is None else last.cpu_secs), 0.0)
        return {
            "cpu_percent": round(100 * cpu_secs / secs, 1),
            "memory_bytes": usage.memory_bytes,
        }


def _describe_gpus(
    devices: Collection[str], gpus: dict[str, process_usage.GpuUsage]
) -> dict[str, float]:
    """Returns the mean use, and the memory in use, of GPUs."""
    held = [gpus[device] for device in devices if device in gpus]
    percents = [each.percent for each in held if each.percent is not None]
    sizes = [each.memory_bytes for each in held if each.memory_bytes is not None]
    described: dict[str, float] = {}
    if percents:
        described["gpu_percent"] = round(sum(percents) / len(percents), 1)
    if sizes:
        described["gpu_memory_bytes"] = sum(sizes)
    return described
