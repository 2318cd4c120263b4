"""Notes regularly what the processes of trials use of the machine, as metrics of an own group.

Nothing depends on them. A trial that goes back to a checkpoint keeps them: they say what happened
on the machine, not what the model has learned.
"""

import dataclasses
import time
from collections.abc import Callable, Collection, Sequence
from typing import Final

from quintain import errors
from quintain.records import metric, process_identity, run
from quintain.scheduler import core as core_lib
from quintain.scheduler import process_usage
from quintain.scheduler import slots as slots_lib

TICK_SECS: Final = 2.0
"""How often it is looked whether a process is due."""

SAMPLE_SECS: Final = 10.0
"""Between two samples of a process passes at least as much."""

_LEAST_AGE_SECS: Final = 1.0


@dataclasses.dataclass(frozen=True)
class _Sample:
    """What was last seen of a process."""

    clock_secs: float
    cpu_secs: float


class UsageSampler:
    """Notes what the processes of trials use. `sample` is called by one thread only.

    Args:
        core: The master's state.
        slots: The slots of the machine.
        read: Returns what processes use.
        read_gpus: Returns what is in use of GPUs; only asked where trials hold some.
        clock: Seconds that only go up.
    """

    def __init__(
        self,
        core: core_lib.Core,
        slots: Sequence[slots_lib.Slot],
        *,
        read: Callable[[Collection[int]], dict[int, process_usage.Usage]] = process_usage.read,
        read_gpus: Callable[[], dict[str, process_usage.GpuUsage]] = process_usage.read_gpus,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._core = core
        self._devices = {slot.id: slot.device for slot in slots if slot.device}
        self._read = read
        self._read_gpus = read_gpus
        self._clock = clock
        self._last: dict[str, _Sample] = {}

    def sample(self) -> None:
        """Notes what is due. The lock is not held while the system is asked."""
        with self._core.condition:
            running = {
                record.identity.pid: record
                for live in self._core.runs.values()
                if (record := live.record).identity is not None and not live.is_killed
            }
        names = {record.launch_id for record in running.values()}
        self._last = {name: last for name, last in self._last.items() if name in names}
        due = {pid: record for pid, record in running.items() if self._is_due(record)}
        if not due:
            return
        usages = self._read(due)
        holds_gpus = any(slot in self._devices for each in due.values() for slot in each.slots)
        gpus = self._read_gpus() if holds_gpus else {}
        measured = {
            record: {**self._describe(record, usages[pid]), **self._describe_gpus(record, gpus)}
            for pid, record in due.items()
            if pid in usages and usages[pid].age_secs >= _LEAST_AGE_SECS
        }
        self._keep(measured)

    def _is_due(self, record: run.Run) -> bool:
        last = self._last.get(record.launch_id)
        is_due = last is None or self._clock() - last.clock_secs >= SAMPLE_SECS
        # Its number may be another process's by now.
        return is_due and record.identity is not None and process_identity.is_alive(record.identity)

    def _describe(self, record: run.Run, usage: process_usage.Usage) -> dict[str, float]:
        now, last = self._clock(), self._last.get(record.launch_id)
        self._last[record.launch_id] = _Sample(now, usage.cpu_secs)
        secs = usage.age_secs if last is None else now - last.clock_secs
        # A child that nobody waited for takes its seconds along.
        cpu_secs = max(usage.cpu_secs - (0.0 if last is None else last.cpu_secs), 0.0)
        return {
            "cpu_percent": round(100 * cpu_secs / secs, 1),
            "memory_bytes": usage.memory_bytes,
        }

    def _describe_gpus(
        self, record: run.Run, gpus: dict[str, process_usage.GpuUsage]
    ) -> dict[str, float]:
        """Returns the mean use, and the memory in use, of the GPUs that a trial holds."""
        devices = [self._devices[slot] for slot in record.slots if slot in self._devices]
        held = [gpus[device] for device in devices if device in gpus]
        percents = [each.percent for each in held if each.percent is not None]
        sizes = [each.memory_bytes for each in held if each.memory_bytes is not None]
        described: dict[str, float] = {}
        if percents:
            described["gpu_percent"] = round(sum(percents) / len(percents), 1)
        if sizes:
            described["gpu_memory_bytes"] = sum(sizes)
        return described

    def _keep(self, measured: dict[run.Run, dict[str, float]]) -> None:
        core, now = self._core, time.time()
        with core.condition:
            rows = []
            for record, metrics in measured.items():
                live = core.runs.get(record.trial_id)
                entry = core.entries.get(record.experiment_id)
                if live is None or live.record.launch_id != record.launch_id or entry is None:
                    continue
                batches = entry.machine_of(record.trial_id).total_batches
                group = metric.MetricGroup.SYSTEM
                rows.append(metric.MetricRow(record.trial_id, group, batches, metrics, time=now))
            if not rows or core.problem:
                return
            try:
                core.write(lambda session: session.add_metrics(rows))
            except errors.StoreError:
                return  # It was noted as the problem of the master, which says it.
