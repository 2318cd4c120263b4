"""The part of the master that starts, watches and ends processes."""

import dataclasses
import logging
import time
import uuid
from collections.abc import Sequence
from typing import Final

from quintain import errors
from quintain.records import checkpoint_manifest, deletion, log, run, states
from quintain.scheduler import (
    checkpoint_gc,
    entries,
    faults,
    launch_tokens,
    log_policies,
    policy,
    process_exits,
    worker_calls,
)
from quintain.scheduler import core as core_lib
from quintain.scheduler import launcher as launcher_lib
from quintain.scheduler import slots as slots_lib
from quintain.store import session as session_lib

logger = logging.getLogger(__name__)

_MOST_WEIGHT: Final = 1e100

EXIT_GRACE_SECS: Final = 60.0
"""How long a process that was told to end, or said that it ends, may take."""

_STOPPED_SECS: Final = 5.0
"""Between two ticks passes less, unless the process was stopped (Ctrl-Z), or the machine."""

LAUNCH_PAUSE_SECS: Final = 2.0
"""Pause after a process could not be started or was lost."""


class Scheduling:
    """Starts, watches and ends processes. `tick` is called by one thread only."""

    def __init__(
        self,
        core: core_lib.Core,
        workers: worker_calls.WorkerCalls,
        launcher: launcher_lib.Launcher,
        slots: Sequence[slots_lib.Slot],
        *,
        address: str,
        launch_key: launch_tokens.LaunchKey,
    ) -> None:
        """Stores what processes are given: where the master is, and each a token of its own."""
        self._core = core
        self._workers = workers
        self._launcher = launcher
        self._slots = {slot.id: slot for slot in slots}
        self._address = address
        self._launch_key = launch_key
        self._exits: list[launcher_lib.ProcessExit] = []
        self._lines: list[log.LogRow] = []
        self._last_tick = time.monotonic()

    def tick(self) -> None:
        """Does all that can be done now, without waiting."""
        core = self._core
        self._forgive_stop()
        self._exits += self._launcher.poll()
        self._lines += self._launcher.read_logs()
        with core.condition:
            core.check_problem()
            if core.problem:
                return
            try:
                self._keep_lines()
                while self._exits:
                    self._take_exit(self._exits[0])
                    del self._exits[0]
                self._end_overdue()
                self._end_runs()
                self._finish_experiments()
                checkpoint_gc.collect_running(core)
                launches = self._choose_launches()
            except errors.StoreError as error:
                core.note_problem(str(error))
                return
        for launch in launches:
            self._launch(launch)

    def _forgive_stop(self) -> None:
        """Counts no time against trials in which this process was stopped, and answered nobody."""
        now = time.monotonic()
        stopped, self._last_tick = now - self._last_tick, now
        if stopped > _STOPPED_SECS:
            with self._core.condition:
                for live in self._core.runs.values():
                    live.since += stopped

    def holders(self) -> dict[int, entries.LiveRun]:
        """Returns who holds which slot."""
        return {slot: live for live in list(self._core.runs.values()) for slot in live.record.slots}

    def kill(self, live: entries.LiveRun, reason: str = "") -> None:
        """Ends a process at once; with a reason, this is a failure of the trial."""
        if not live.is_killed:
            live.is_killed, live.kill_reason = True, reason
            self._launcher.kill(live.record.launch_id)

    # What happened.

    def _keep_lines(self) -> None:
        if self._lines:
            lines = [line for line in self._lines if self._is_known(line.trial_id)]
            log_policies.note_lines(self._core, lines)
            self._core.write(lambda session: session.add_logs(lines))
            self._lines = []

    def _is_known(self, trial_id: int) -> bool:
        """Whether there is such a trial; its experiment may have been deleted meanwhile."""
        if any(trial_id in entry.request_ids for entry in self._core.entries.values()):
            return True
        with self._core.store.reading() as session:
            try:
                session.get_trial(trial_id)
            except errors.NotFoundError:
                return False
        return True

    def _take_exit(self, ended: launcher_lib.ProcessExit) -> None:
        core = self._core
        live = core.runs.get(ended.trial_id)
        if live is None or live.record.launch_id != ended.launch_id:
            core.write(lambda session: session.delete_run(ended.launch_id))
            return
        self._contain_exit(live, ended)

    def _contain_exit(
        self, live: entries.LiveRun, ended: launcher_lib.ProcessExit | None, reason: str = ""
    ) -> None:
        """Records an exit; the slots are free afterwards whatever that raises."""
        core, trial_id = self._core, live.record.trial_id
        if live.record.experiment_id in core.entries:
            with core.containing(live.record.experiment_id, f"when trial {trial_id} ended"):
                self.record_exit(live, ended, reason)
        if core.runs.get(trial_id) is live:
            core.write(lambda session: forget_run(core, session, live.record))
            del core.runs[trial_id]

    def record_exit(
        self, live: entries.LiveRun, ended: launcher_lib.ProcessExit | None, reason: str = ""
    ) -> None:
        """Notes that a process is gone, and what this means for its trial.

        Args:
            live: The process.
            ended: How it ended, or None if that is not known.
            reason: Why, if `ended` is None.
        """
        core, trial_id = self._core, live.record.trial_id
        entry = core.entry(live.record.experiment_id)
        event = live.exit_event or process_exits.describe(entry, live, ended, reason)
        if event is not None:
            log_policies.decide(event, entry, live, len(self._slots))

        def write(session: session_lib.Session) -> None:
            forget_run(core, session, live.record)
            if event is not None:
                session.add_logs([core.log(trial_id, str(event["reason"]))])

        if event is None:
            core.write(write)
        else:
            core.apply(entry, event, write)
            if not event.get("is_counted", True):
                entry.retry_at[trial_id] = time.monotonic() + LAUNCH_PAUSE_SECS
        del core.runs[trial_id]
        core.entry(entry.id).enqueue(trial_id)
        core.notify()

    # What has to end.

    def _end_overdue(self) -> None:
        """Ends experiments whose budget of time is used up; their trials save themselves."""
        for entry in list(self._core.entries.values()):
            with self._core.containing(entry.id, "while its budget of time was looked at"):
                machine = entry.machine
                is_active = machine.state is states.ExperimentState.ACTIVE
                if is_active and machine.find_time_left(time.time()) <= 0:
                    reason = (
                        f"searcher.time_budget: {entry.config.searcher.time_budget:g} s are up."
                    )
                    self._core.apply(entry, {"kind": "time_up", "reason": reason})

    def _end_runs(self) -> None:
        now = time.monotonic()
        for live in list(self._core.runs.values()):
            if live.is_killed:
                continue
            if live.record.experiment_id not in self._core.entries:
                self.kill(live)
                continue
            with self._core.containing(live.record.experiment_id, "while its trials were watched"):
                self._end_run(live, now - live.since)

    def _end_run(self, live: entries.LiveRun, age: float) -> None:
        entry = self._core.entry(live.record.experiment_id)
        machine = entry.machine_of(live.record.trial_id)
        timeout = entry.config.workload_timeout
        if entry.machine.is_killed or machine.state is states.TrialState.CANCELED:
            self.kill(live)
        elif live.record.state is run.RunState.ENDING:
            if age > EXIT_GRACE_SECS:
                self.kill(live)
        elif timeout is not None and age > timeout and live.idle_since is None:
            work = live.outstanding
            doing = "start" if work is None else f"do workload {work.number} ({work.kind})"
            self.kill(live, f"workload_timeout: the trial took more than {timeout:g} s to {doing}.")

    def _finish_experiments(self) -> None:
        busy = {live.record.experiment_id for live in self._core.runs.values()}
        for experiment_id in list(self._core.entries):
            if experiment_id not in busy:
                with self._core.containing(experiment_id, "while it was ended"):
                    self._finish_experiment(experiment_id)

    def _finish_experiment(self, experiment_id: int) -> None:
        entry = self._core.entry(experiment_id)
        if not entry.machine.state.is_stopping:
            return
        self._core.apply(entry, {"kind": "drained"})
        del self._core.entries[experiment_id]
        checkpoint_gc.collect_ended(self._core, entry)
        self._clear_scratch(experiment_id)

    def _clear_scratch(self, experiment_id: int) -> None:
        """Lets the scratch files of an ended experiment go, process by process."""
        core = self._core
        root = core.home / "scratch" / str(experiment_id)
        names = sorted(path.name for path in root.iterdir()) if root.is_dir() else []
        # One by one: if the experiment is continued, it has new ones beside them.
        notes = core.deletions.note(deletion.DeletionKind.SCRATCH, root, names, experiment_id)
        core.write(lambda session: session.add_deletions(notes))

    # What is to start.

    def _choose_launches(self) -> list[launcher_lib.Launch]:
        core = self._core
        groups, wanted = self._build_groups(time.monotonic())
        decisions = policy.assign(groups, len(self._slots))
        for trial_id in decisions.preempt:
            core.runs[trial_id].is_preempted = True
        self._workers.is_crowded = len(decisions.start) < sum(
            not request.is_running for group in groups for request in group.requests
        )
        if self._workers.is_crowded or decisions.preempt:
            core.condition.notify_all()
        free = [slot_id for slot_id in sorted(self._slots) if slot_id not in self.holders()]
        launches = []
        for trial_id in decisions.start:
            entry = wanted[trial_id]
            if not core.is_active(entry.id):
                continue
            count = entry.config.resources.slots_per_trial
            excluded = entry.machine_of(trial_id).excluded_slots
            taken = tuple([slot for slot in free if slot not in excluded][:count])
            if count > len(taken):
                continue
            with core.containing(entry.id, f"while trial {trial_id} was started"):
                launches.append(self._prepare(entry, trial_id, taken))
                free = [slot for slot in free if slot not in taken]
        records = [record for _, record in launches]

        def write(session: session_lib.Session) -> None:
            for record in records:
                session.save_run(record)

        if records:
            core.write(write)
        for record in records:
            request_id = wanted[record.trial_id].request_ids[record.trial_id]
            core.runs[record.trial_id] = entries.LiveRun(record, request_id, time.monotonic())
        return [launch for launch, _ in launches]

    def _build_groups(self, now: float) -> tuple[list[policy.Group], dict[int, entries.Entry]]:
        core = self._core
        groups: list[policy.Group] = []
        wanted: dict[int, entries.Entry] = {}
        held: dict[int, list[policy.Request]] = {}
        for trial_id, live in core.runs.items():
            is_ending = live.is_preempted or live.record.state is run.RunState.ENDING
            request = policy.Request(trial_id, len(live.record.slots), True, is_ending)
            held.setdefault(live.record.experiment_id, []).append(request)
        for experiment_id in sorted(core.entries):
            with core.containing(experiment_id, "while it was scheduled"):
                entry = core.entry(experiment_id)
                requests = held.get(experiment_id, [])
                if entry.machine.state is states.ExperimentState.ACTIVE:
                    count = entry.config.resources.slots_per_trial
                    # With those that run, so that whoever gets a slot does not seem to want more
                    # than before: it would be served later, and lose the slot again.
                    holding = [each for each in requests if each.num_slots and not each.is_ending]
                    most = len(self._slots) + 1 - len(holding)
                    for trial_id in entry.next_waiting(most, core.runs, now):
                        wanted[trial_id] = entry
                        requests.append(policy.Request(trial_id, count))
                if requests:
                    groups.append(_build_group(entry, requests))
        return groups, wanted

    def _prepare(
        self, entry: entries.Entry, trial_id: int, taken: tuple[int, ...]
    ) -> tuple[launcher_lib.Launch, run.Run]:
        """Returns how a trial is to be started, and what the store is to keep of it."""
        launch_id = f"t{trial_id}-{uuid.uuid4().hex[:12]}"
        record = run.Run(
            launch_id, trial_id, entry.id, taken, run.RunState.LAUNCHING, None, time.time()
        )
        has_gpu = any(self._slots[slot].kind is slots_lib.SlotKind.GPU for slot in taken)
        environment = {
            **entry.config.environment.as_mapping(has_gpu=has_gpu),
            "QUINTAIN_MASTER": self._address,
            "QUINTAIN_TOKEN": self._launch_key.build_token(trial_id, launch_id),
            "QUINTAIN_TRIAL_ID": str(trial_id),
            "QUINTAIN_LAUNCH_ID": launch_id,
            "QUINTAIN_SLOTS": ",".join(map(str, taken)),
        }
        launch = launcher_lib.Launch(
            launch_id=launch_id,
            trial_id=trial_id,
            experiment_id=entry.id,
            slots=tuple(self._slots[slot] for slot in taken),
            environment=environment,
            scratch_dir=str(entries.scratch_dir(self._core.home, record)),
            model_dir=entry.record.model_dir,
        )
        return launch, record

    def _launch(self, launch: launcher_lib.Launch) -> None:
        """Starts a process. The lock is not held meanwhile; a worker may be faster than this."""
        core = self._core
        try:
            identity = self._launcher.start(launch)
        except Exception as error:  # noqa: BLE001 - the border between experiments
            is_known = isinstance(error, errors.QuintainError)
            cause = str(error) if is_known else faults.describe(error)
            with core.condition:
                live = core.runs[launch.trial_id]
                try:
                    self._contain_exit(live, None, f"The process could not be started: {cause}")
                except errors.StoreError:
                    unknown = launcher_lib.ProcessExit(
                        launch.launch_id, launch.trial_id, None, None
                    )
                    self._exits.append(unknown)
            return
        with core.condition:
            live = core.runs[launch.trial_id]
            if live.record.identity is None:
                record = dataclasses.replace(live.record, identity=identity)
                try:
                    core.write(lambda session: session.save_run(record))
                except errors.StoreError:
                    logger.warning("The process of trial %d is not noted.", launch.trial_id)
                live.record = record
            if live.is_killed:
                self._launcher.kill(launch.launch_id)


def _build_group(entry: entries.Entry, requests: list[policy.Request]) -> policy.Group:
    resources = entry.config.resources
    return policy.Group(
        entry.id,
        requests,
        # The shares of all are computed from it: an infinite one would leave none.
        weight=min(resources.weight, _MOST_WEIGHT),
        max_slots=resources.max_slots,
        priority=resources.priority or policy.DEFAULT_PRIORITY,
    )


def forget_run(core: core_lib.Core, session: session_lib.Session, record: run.Run) -> None:
    """Forgets a process that is gone, and lets go of what it had begun to save.

    Args:
        core: The master's state.
        session: A writing transaction.
        record: The process.
    """
    session.delete_run(record.launch_id)
    try:
        storage = core.find_storage(session, record.experiment_id)
    except errors.NotFoundError:  # It was deleted, with all its directories.
        return
    name = checkpoint_manifest.unfinished_name(record.launch_id)
    if storage.may_have(name):
        kind, address = deletion.DeletionKind.UNFINISHED, storage.address
        session.add_deletions(core.deletions.note(kind, address, [name], record.experiment_id))
