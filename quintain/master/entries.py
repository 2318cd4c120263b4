"""In-memory state of an experiment and of a launch, and its conversion to records."""

import dataclasses
import heapq
import logging
import pathlib
import time
from collections.abc import Container, Iterable, Sequence
from typing import Any, Final

from quintain.master.machine import effects as effects_lib
from quintain.master.machine import experiment_machine, trial_machine
from quintain.master.placing import pools, unmet_needs
from quintain.master.processes import launcher
from quintain.records.config import (
    checkpoint_storage_config,
    experiment_sections,
    experiment_spec,
)
from quintain.records.rows import experiment, launch, log, node, trial, workload
from quintain.records.views import master_status
from quintain.store import session as session_lib

logger = logging.getLogger(__name__)

_Kind = workload.WorkloadKind
_WORDS: Final = {_Kind.VALIDATE: "evaluating", _Kind.CHECKPOINT: "saving"}
_LONGEST_WAIT: Final = 500
_MEMORY: Final = 0.95
"""Weight that a workload keeps in the rate of batches when the next one has ended."""


@dataclasses.dataclass(slots=True)
class LiveLaunch:
    """A process of a trial that holds slots."""

    record: launch.Launch
    """What the store keeps of it."""

    request_id: str
    """The trial, as its experiment's machine knows it."""

    since: float
    """When it was given its workload, or started; seconds of the monotonic clock."""

    outstanding: workload.Workload | None = None
    """The workload that it was given and has not answered."""

    has_begun: bool = False
    """Whether it has asked for a workload."""

    noted: tuple[int, int, float] = (0, 0, 0.0)
    """Its newest note: a workload, how many of its batches are done, and when; by the monotonic
    clock."""

    idle_since: float | None = None
    """Since when there is nothing to do for it; seconds of the monotonic clock."""

    is_preempted: bool = False
    """Whether it is to give back its slots."""

    is_backfill: bool = False
    """Whether it uses slots that others wait for until these have all that they need."""

    num_counted: int = 0
    """Slots that it counts as held by its experiment."""

    @property
    def is_giving_back(self) -> bool:
        """True if its slots will be free before long."""
        return self.is_preempted or self.record.state is launch.LaunchState.ENDING

    is_exit_known: bool = False
    """Whether what its end means was recorded before it ended."""

    exit_event: dict[str, Any] | None = None
    """What it said about its end, where that is judged by its log, once that is complete."""

    matched_policies: frozenset[int] = frozenset()
    """Log policies of the experiment of which a line was found, by their place."""

    is_killed: bool = False
    """Whether the launcher was told to end it."""

    kill_reason: str = ""
    """Why it was killed, if that is a failure of the trial."""

    ended: dict[int, launcher.ProcessExit] = dataclasses.field(default_factory=dict)
    """How those of its processes ended that have, by rank, in the order in which it was noticed."""


@dataclasses.dataclass
class Pace:
    """Seconds that workers spend on a batch, where older workloads count less."""

    _secs: float = 0.0
    _num_batches: float = 0.0

    @property
    def secs_per_batch(self) -> float | None:
        """None if no workload has ended yet."""
        return self._secs / self._num_batches if self._num_batches else None

    def note(self, num_batches: int, secs: float) -> None:
        """Notes how long a workload took."""
        if num_batches > 0:
            self._secs = _MEMORY * self._secs + max(secs, 0.0)
            self._num_batches = _MEMORY * self._num_batches + num_batches


@dataclasses.dataclass
class Entry:
    """An experiment that has not ended."""

    record: experiment.Experiment
    """What the store keeps of it."""

    machine: experiment_machine.ExperimentMachine
    """Its state."""

    config: experiment_spec.ExperimentSpec
    """Its config as it is now; users may change parts that the machine does not use."""

    trial_ids: dict[str, int] = dataclasses.field(default_factory=dict)
    """Numbers of trials by the names that the search method gave them."""

    request_ids: dict[int, str] = dataclasses.field(default_factory=dict)
    """The reverse."""

    training: Pace = dataclasses.field(default_factory=Pace)
    """Pace at which workers of this master train."""

    noted: Pace = dataclasses.field(default_factory=Pace)
    """Pace between notes within workloads; it serves until the first workload has ended."""

    validation: Pace = dataclasses.field(default_factory=Pace)
    """Pace of their validations, by the batches that were trained since the one before."""

    has_slow_policies: bool = False
    """Whether its log policies took so long that lines are not looked at any more."""

    num_slots: int | None = None
    """Slots with which its trials start now, if they do with fewer than they want."""

    told_lack: str = ""
    """What its log said last of needs that no machine satisfies."""

    waits: dict[int, dict[int, str]] = dataclasses.field(default_factory=dict)
    """What processes said that they wait for, by trials that run and their ranks."""

    _touched: set[int] = dataclasses.field(default_factory=set)
    _delayed: list[tuple[float, int]] = dataclasses.field(default_factory=list)
    _waiting: set[int] = dataclasses.field(default_factory=set)
    _queue: list[int] = dataclasses.field(default_factory=list)
    _queued: set[int] = dataclasses.field(default_factory=set)

    @property
    def id(self) -> int:
        """Number of the experiment."""
        return self.record.id

    def add_id(self, request_id: str, trial_id: int) -> None:
        """Notes the number of a trial."""
        self.trial_ids[request_id] = trial_id
        self.request_ids[trial_id] = request_id

    def note_wait(self, trial_id: int, rank: int, text: str) -> None:
        """Notes what one of a trial's processes waits for; an empty text if it goes on."""
        others = {at: it for at, it in self.waits.get(trial_id, {}).items() if at != rank}
        self._put_waits(trial_id, {**others, rank: text[:_LONGEST_WAIT]} if text else others)

    def end_waits(self, trial_id: int) -> None:
        """Notes that a trial's processes have ended, which wait for nothing."""
        self._put_waits(trial_id, {})

    def _put_waits(self, trial_id: int, waits: dict[int, str]) -> None:
        had_waits = bool(self.waits)
        self.waits.pop(trial_id, None)
        if waits:
            self.waits[trial_id] = waits
        if bool(self.waits) != had_waits:
            texts = "".join(waits.values())
            said = f"trial {trial_id} waits for {texts}" if waits else "trials wait no more"
            logger.warning("Experiment %d: %s", self.id, said)

    def describe_wait(self) -> str:
        """Returns what trials wait for; empty if they go on."""
        if not self.waits:
            return ""
        trial_id, texts = next(iter(self.waits.items()))
        others = f" (as do {len(self.waits) - 1} more)" if len(self.waits) > 1 else ""
        return f"Trial {trial_id}{others} waits for {next(iter(texts.values()))}"

    def note_steps(self, live: LiveLaunch, number: int, batches: int) -> None:
        """Notes how many batches of its workload a launch has trained on; older notes are void."""
        machine = self.machine_of(live.record.trial_id)
        work = live.outstanding or machine.next_step()
        batches = min(batches, 0 if work is None else work.num_batches)
        if number != machine.num_results + 1 or batches <= self.count_noted(live):
            return
        now = time.monotonic()
        if self.count_noted(live):
            self.noted.note(batches - live.noted[1], now - live.noted[2])
        live.noted = number, batches, now

    def count_noted(self, live: LiveLaunch) -> int:
        """Returns the batches that a launch has trained on since its last result, as it said."""
        number, batches, _ = live.noted
        is_current = number == self.machine_of(live.record.trial_id).num_results + 1
        return batches if is_current else 0

    def find_progress(self, launches: Iterable[LiveLaunch]) -> float:
        """Returns the done part of the search, from 0 to 1, with what its launches have noted."""
        noted = sum(map(self.count_noted, launches))
        return max(self.machine.progress, self.machine.search.progress(noted))

    def describe_work(self, live: LiveLaunch) -> master_status.TrialWork:
        """Returns what a trial does now, and how far it is."""
        machine, noted = self.machine_of(live.record.trial_id), self.count_noted(live)
        done, target = machine.total_batches + noted, machine.target_batches
        if live.record.state is launch.LaunchState.ENDING:
            doing = "ending"
        elif noted or (live.outstanding and live.outstanding.kind is _Kind.TRAIN):
            doing = f"training {done}/{target}"
        elif live.outstanding:
            doing = _WORDS[live.outstanding.kind]
        elif live.has_begun:
            doing = "running" if live.idle_since is None else "idle"
        else:
            doing = "starting"
        progress = max(machine.progress, min(done / target, 1.0) if target else 0.0)
        return master_status.TrialWork(live.record.trial_id, doing, progress)

    @property
    def resources(self) -> experiment_sections.ResourcesConfig:
        """Resources of a trial that starts now."""
        wanted = self.config.resources
        return wanted if self.num_slots is None else wanted.take(self.num_slots)

    @property
    def needs(self) -> pools.Needs:
        """Requirements of its trials on machines and slots."""
        return unmet_needs.find_needs(self.config.resources)

    def machine_of(self, trial_id: int) -> trial_machine.TrialMachine:
        """Returns the machine of a trial."""
        return self.machine.trials[self.request_ids[trial_id]]

    def may_upload(self, record: launch.Launch) -> bool:
        """Returns whether a single-process launch of a trial uploads its checkpoints."""
        if record.others:
            return False
        is_remote = self.config.checkpoint_storage.type in checkpoint_storage_config.REMOTE_TYPES
        return is_remote or record.node != node.OWN

    def enqueue(self, trial_id: int, after: float = 0.0) -> None:
        """Notes that a trial may have work to do, or none any more.

        Args:
            trial_id: The trial.
            after: When it may be started, by the monotonic clock.
        """
        if after:
            self._waiting.discard(trial_id)
            self._touched.discard(trial_id)
            heapq.heappush(self._delayed, (after, trial_id))
        else:
            self._touched.add(trial_id)

    def count_waiting(self, running: Container[int], now: float) -> int:
        """Returns how many trials have work to do and no process.

        Only those that have changed since the last call are looked at.
        """
        while self._delayed and self._delayed[0][0] <= now:
            self._touched.add(heapq.heappop(self._delayed)[1])
        while self._touched:
            trial_id = self._touched.pop()
            if trial_id in running or self.machine_of(trial_id).next_step() is None:
                self._waiting.discard(trial_id)
                continue
            self._waiting.add(trial_id)
            if trial_id not in self._queued:
                self._queued.add(trial_id)
                heapq.heappush(self._queue, trial_id)
        return len(self._waiting)

    def next_waiting(self, count: int) -> list[int]:
        """Returns the oldest of the trials that were counted last."""
        chosen: list[int] = []
        while self._queue and len(chosen) < count:
            trial_id = heapq.heappop(self._queue)
            if trial_id in self._waiting:
                chosen.append(trial_id)
            else:
                self._queued.discard(trial_id)
        for trial_id in chosen:
            heapq.heappush(self._queue, trial_id)
        return chosen

    def list_waiting(self, running: Container[int]) -> list[int]:
        """Returns all trials that have work to do and no process."""
        self.count_waiting(running, time.monotonic())
        return sorted(self._waiting.union(self._list_delayed(running)))

    def count_all_waiting(self, running: Container[int]) -> int:
        """Returns how many these are, without looking at each."""
        num_ready = self.count_waiting(running, time.monotonic())
        return num_ready + len(set(self._list_delayed(running)) - self._waiting)

    def _list_delayed(self, running: Container[int]) -> list[int]:
        return [
            trial_id
            for _, trial_id in self._delayed
            if trial_id not in running and self.machine_of(trial_id).next_step() is not None
        ]

    def build_experiment_record(self) -> experiment.Experiment:
        """Returns what the store is to keep of the experiment."""
        return dataclasses.replace(
            self.record,
            state=self.machine.state,
            progress=round(self.machine.progress, 3),
            end_time=self.machine.end_time,
            reason=self.machine.reason,
        )

    def build_trial_record(self, request_id: str) -> trial.TrialRecord:
        """Returns what the store is to keep of a trial; its id is 0 if it is new."""
        machine = self.machine.trials[request_id]
        parent = self.trial_ids[machine.parent] if machine.parent is not None else None
        return trial.TrialRecord(
            id=self.trial_ids.get(request_id, 0),
            experiment_id=self.record.id,
            request_id=request_id,
            state=machine.state,
            hparams=machine.hparams,
            seed=machine.seed,
            parent_trial_id=parent,
            restarts=machine.restarts,
            total_batches=machine.total_batches,
            latest_checkpoint=machine.checkpoint,
            best_metric=machine.best_metric,
            latest_metric=machine.latest_metric,
            progress=machine.progress,
            start_time=machine.start_time,
            end_time=machine.end_time,
            reason=machine.reason,
        )


def write_effects(session: session_lib.Session, entry: Entry, effects: effects_lib.Effects) -> None:
    """Writes what an event did to the store, and notes the numbers of new trials."""
    for request_id in effects.created:
        added = session.add_trial(entry.build_trial_record(request_id))
        entry.add_id(request_id, added.id)
    created = frozenset(effects.created)
    for request_id, kept in effects.rolled_back.items():
        session.delete_metrics_after(entry.trial_ids[request_id], kept)
    for request_id in effects.changed:
        if request_id not in created or request_id in effects.ended:
            session.update_trial(entry.build_trial_record(request_id))
    if effects.notes:
        now = time.time()
        session.add_logs(
            [
                log.LogRow(entry.trial_ids[name], now, log.LogSource.MASTER, text)
                for name, text in effects.notes
            ]
        )
    record = entry.build_experiment_record()
    if record != entry.record:
        session.update_experiment(record)
        entry.record = record
    for request_id in (*effects.created, *effects.changed):
        entry.enqueue(entry.trial_ids[request_id])


def load_entry(
    record: experiment.Experiment,
    events: Sequence[dict[str, Any]],
    trials: Sequence[trial.TrialRecord],
) -> Entry:
    """Builds an experiment anew from what the store keeps."""
    config = experiment_spec.parse(events[0]["config"])
    machine = experiment_machine.ExperimentMachine(config)
    for event in events:
        machine.apply(event)
    entry = Entry(record, machine, experiment_spec.parse(record.config))
    for each in trials:
        entry.add_id(each.request_id, each.id)
        if not each.state.is_terminal:
            entry.enqueue(each.id)
    return entry


def scratch_dir(home: pathlib.Path, record: launch.Launch) -> pathlib.Path:
    """Returns the directory for files of a process that nobody else needs."""
    return home / "scratch" / str(record.experiment_id) / record.launch_id
