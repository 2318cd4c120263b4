"""Usage of machines by trials, sampled as metrics of an own group.

Nothing depends on them. A trial that goes back to a checkpoint keeps them: they say what happened
on the machine, not what the model has learned.
"""

import time
from collections.abc import Callable, Mapping
from typing import Final

from quintain import errors
from quintain.master import entries, shared_state
from quintain.master.processes import usage_meter
from quintain.records.rows import launch, metric
from quintain.records.rows import node as node_lib

TICK_SECS: Final = 2.0
"""How often it is looked whether a process is due."""

_MEAN: Final = "gpu_percent"
"""What is the mean over the processes of a trial; everything else is their sum."""


class UsageSampler:
    """Notes what the processes of trials use. `sample` is called by one thread only.

    Args:
        shared: The master's state.
        read_remote: Returns what processes of other machines use, by launch, where it is new.
        meter: Measures processes of this machine.
    """

    def __init__(
        self,
        shared: shared_state.SharedState,
        *,
        read_remote: Callable[[], Mapping[str, Mapping[str, float]]],
        meter: usage_meter.UsageMeter | None = None,
    ) -> None:
        self._shared = shared
        self._read_remote = read_remote
        self._meter = meter or usage_meter.UsageMeter()
        self._newest: dict[str, dict[int, Mapping[str, float]]] = {}

    def sample(self) -> None:
        """Notes what is due. The lock is not held while the system is asked."""
        own: list[usage_meter.Process] = []
        with self._shared.condition:
            # Of thousands on other machines, nothing is looked up here.
            for trial_id in self._shared.nodes.trials.get(node_lib.OWN, ()):
                own += self._list_own(self._shared.launches_by_trial[trial_id])
        known = self._shared.launches_by_id
        self._newest = {name: each for name, each in self._newest.items() if name in known}
        measured = []
        for name, metrics in {**self._meter.measure(own), **self._read_remote()}.items():
            launch_id, rank = launch.split_member(name)
            live = known.get(launch_id)
            if live is not None and not live.is_killed:
                self._newest.setdefault(launch_id, {})[rank] = metrics
                if rank == 0:
                    measured.append(live)
        self._keep(measured)

    def _list_own(self, live: entries.LiveLaunch) -> list[usage_meter.Process]:
        """Returns the processes of a run that are on the machine of the master."""
        slots = self._shared.nodes.slots
        return [
            usage_meter.Process(
                launch.member_name(live.record.launch_id, rank),
                member.identity,
                tuple(
                    slots[each].device
                    for each in member.slots
                    if each in slots and slots[each].device
                ),
            )
            for rank, member in enumerate(live.record.members)
            if member.node == node_lib.OWN and member.identity is not None
        ]

    def _keep(self, measured: list[entries.LiveLaunch]) -> None:
        shared, now = self._shared, time.time()
        with shared.condition:
            rows = []
            for live in measured:
                record = live.record
                entry = shared.entries.get(record.experiment_id)
                if shared.launches_by_trial.get(record.trial_id) is not live or entry is None:
                    continue
                batches = entry.machine_of(record.trial_id).total_batches
                group, metrics = metric.MetricGroup.SYSTEM, self._combine(record)
                rows.append(metric.MetricRow(record.trial_id, group, batches, metrics, time=now))
            if not rows or shared.problem:
                return
            try:
                shared.write(lambda session: session.add_metrics(rows))
            except errors.StoreError:
                return  # It was noted as the problem of the master, which says it.

    def _combine(self, record: launch.Launch) -> dict[str, float]:
        """Returns what all processes of a run use."""
        parts = list(self._newest[record.launch_id].values())
        combined: dict[str, float] = {}
        for name in dict.fromkeys(name for part in parts for name in part):
            values = [part[name] for part in parts if name in part]
            mean = round(sum(values) / len(values), 1)
            combined[name] = mean if name == _MEAN else sum(values)
        return combined
