"""Master: builds the parts that run experiments, and runs their threads.

The master puts the parts together, and runs the threads: `user_commands` (what users ask),
`worker_calls` (what processes ask), `scheduling` (what processes there are) and `recovery` (what a
former master left). All of them change experiments through `shared_state`, in one transaction for
each event.
"""

import bisect
import contextlib
import logging
import math
import pathlib
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final, TypeVar

from quintain import errors
from quintain.master import (
    entries,
    metric_sending,
    node_commands,
    orphans,
    recovery,
    scheduling,
    shared_state,
    throttle,
    user_commands,
)
from quintain.master.machine import active_time
from quintain.master.placing import slots as slots_lib
from quintain.master.processes import launch_tokens
from quintain.master.processes import launcher as launcher_lib
from quintain.master.workers import run_files, usage_sampling, worker_calls
from quintain.records.rows import states, workload
from quintain.records.views import master_status
from quintain.store import store as store_lib

logger = logging.getLogger(__name__)

TICK_SECS: Final = 0.1
"""How often processes are looked after at least."""

_POSTPONED_SECS: Final = 60.0
"""After how long a storage that did not answer is asked again to delete something."""

_STATUS_POLL_SECS: Final = 0.2
"""How often somebody who asks for the status looks whether the lock will be free soon."""

MOST_TOLD: Final = 256
"""With more slots, the page is told how many there are and how many are in use."""

ENDING_TICK_SECS: Final = 0.01
"""The same while one of them is about to end."""

T = TypeVar("T")


class Master:
    """Runs experiments. All methods may be called from several threads.

    Attributes:
        commands: Answers users.
        nodes: Answers them about machines.
        workers: Answers the processes of trials.
        files: Gives them their files, and takes what they save.
    """

    def __init__(
        self,
        store: store_lib.Store,
        launcher: launcher_lib.Launcher,
        slots: Sequence[slots_lib.Slot],
        home: pathlib.Path,
        *,
        address: str = "",
        launch_key: launch_tokens.LaunchKey | None = None,
        idle_secs: float = worker_calls.IDLE_SECS,
        accept_new_database: bool = False,
    ) -> None:
        """Stores what the master works with.

        Args:
            store: Where everything is kept.
            launcher: Starts and ends processes.
            slots: What trials may use.
            home: Directory of the platform; model directories, checkpoints and scratch files.
            address: Where workers reach this master.
            launch_key: Makes what they authenticate with; a new one if None.
            idle_secs: How long a process without work is kept, in case the next work comes soon.
            accept_new_database: Whether the store becomes this home's even if it knows nothing of
                the checkpoints that are there.
        """
        self._shared = shared_state.SharedState(store, home, slots)
        self.workers = worker_calls.WorkerCalls(self._shared, idle_secs=idle_secs)
        self.files = run_files.RunFiles(self._shared, self.workers)
        self._launcher = launcher
        self._processes = scheduling.Scheduling(
            self._shared,
            self.workers,
            launcher,
            address=address,
            launch_key=launch_key or launch_tokens.LaunchKey.generate(),
        )
        self.nodes = node_commands.NodeCommands(self._shared)
        self.commands = user_commands.Commands(self._shared, self._processes)
        self._usage = usage_sampling.UsageSampler(self._shared, read_remote=launcher.read_usage)
        self._metrics = metric_sending.MetricSending(self._shared)
        self._accept_new_database = accept_new_database
        self._recent: master_status.MasterStatus | None = None
        self._looks = throttle.Throttle()
        self._threads: list[threading.Thread] = []
        self._is_stopped = threading.Event()

    # Life.

    def start(self) -> None:
        """Takes up the experiments of the store, and their processes; then starts to schedule.

        Raises:
            StateError: If the store is not that of the home.
        """
        self.recover()
        self._is_stopped.clear()
        self._shared.deletions.wake.set()
        for name, work in (
            ("scheduler", self._run),
            ("deletions", self._run_deletions),
            ("usage", self._run_usage),
            ("metrics", self._run_metrics),
            ("orphans", self._tell_orphans),
        ):
            thread = threading.Thread(target=work, name=f"quintain-{name}", daemon=True)
            self._threads.append(thread)
            thread.start()

    def recover(self) -> None:
        """Takes up the experiments of the store, and their processes; schedules nothing."""
        self._shared.home.mkdir(parents=True, exist_ok=True)
        recovery.recover(
            self._shared,
            self._processes,
            self._launcher,
            accept_new_database=self._accept_new_database,
        )

    def stop(self) -> None:
        """Stops scheduling. Processes go on; another master takes them over."""
        self._is_stopped.set()
        with self._shared.condition:
            self.workers.is_closed = True
            self._shared.notify()
        self._shared.deletions.wake.set()
        for thread in self._threads:
            thread.join()
        self._threads.clear()

    def tick(self) -> None:
        """Does all of the scheduling that can be done now; `start` does this in threads."""
        self._processes.tick()
        self._shared.deletions.run()

    def drain(self, experiment_id: int | None = None) -> None:
        """Pauses one experiment, or all, and waits until none of their processes runs."""
        shared = self._shared
        with shared.condition:
            chosen = [
                entry.id for entry in shared.entries.values() if experiment_id in (None, entry.id)
            ]
        for each in chosen:
            try:
                self.commands.apply(each, "pause")
            except errors.StateError:
                logger.info("Experiment %d ends by itself.", each)
        while not self._is_stopped.is_set():
            if not self._threads:
                self.tick()
            with shared.condition:
                if not any(
                    live.record.experiment_id in chosen
                    for live in shared.launches_by_trial.values()
                ):
                    return
                shared.condition.wait(TICK_SECS)

    def _run(self) -> None:
        while not self._is_stopped.is_set():
            self._shared.wake.clear()
            try:
                self._processes.tick()
            except Exception:
                # What one experiment raises has ended that one; this concerns all of them.
                logger.exception("The scheduling failed and is tried again.")
                time.sleep(1.0)
            self._shared.wake.wait(ENDING_TICK_SECS if self._is_any_ending() else TICK_SECS)

    def _run_deletions(self) -> None:
        """Deletes what was noted; it may take long, and nobody waits for it."""
        deletions = self._shared.deletions
        is_last = False
        while not is_last:
            deletions.wake.wait(_POSTPONED_SECS if deletions.has_postponed else None)
            is_last = self._is_stopped.is_set()
            # Who notes something holds the lock until it is stored.
            with self._shared.condition:
                deletions.wake.clear()
            deletions.run(is_last=is_last)

    def _run_usage(self) -> None:
        """Notes what trials use of the machine; it may take long, and nobody waits for it."""
        while not self._is_stopped.wait(usage_sampling.TICK_SECS):
            try:
                self._usage.sample()
            except errors.StoreAwayError:
                continue  # The store says so itself.
            except Exception:
                # Trials go on without it.
                logger.exception("What trials use could not be noted.")

    def _run_metrics(self) -> None:
        """Sends metrics to loggers; it may take long, and nobody waits for it."""
        is_last = False
        while not is_last:
            is_last = self._is_stopped.wait(metric_sending.TICK_SECS)
            try:
                self._metrics.send(is_last=is_last)
            except errors.StoreAwayError:
                continue  # The store says so itself; they are sent the next time.
            except Exception:
                # They stay in the store, and are sent the next time.
                logger.exception("Metrics of trials could not be sent.")

    def _tell_orphans(self) -> None:
        """Says once what the database does not know; it may take long, and nobody waits for it."""
        try:
            orphans.tell(self._shared.store, self._shared.home)
        except errors.StoreAwayError:
            return  # The store says so itself; the next master says it.
        except Exception:
            logger.exception("What the database does not know could not be looked for.")

    def _is_any_ending(self) -> bool:
        """Returns whether a slot becomes free at any moment: its next process should not wait."""
        with self._shared.condition:
            return bool(self._shared.ending)

    # Views.

    def status(self) -> master_status.MasterStatus:
        """Returns who holds which slot, and how far experiments are.

        It does not wait for a transaction that waits for another program: while one does, nothing
        else changes what is in memory.
        """
        with self._snapshot_lock() as problem:
            return self._build_status(problem)

    def summary(self) -> master_status.MasterSummary:
        """Returns the same in numbers, which takes as long with thousands of slots as with ten."""
        with self._snapshot_lock() as problem:
            nodes = self._shared.nodes
            return master_status.MasterSummary(
                num_slots=nodes.num_usable,
                num_remote_slots=nodes.num_usable - nodes.num_own,
                num_busy_slots=len(nodes.holders),
                lost_nodes=tuple(sorted(nodes.lost)),
                awaited_nodes=tuple(sorted(self._launcher.list_awaited())),
                experiments=self._describe_all(self._summarise),
                problem=problem,
                slow_start=self._launcher.find_slowness(),
            )

    @contextlib.contextmanager
    def _snapshot_lock(self) -> Iterator[str]:
        """Holds the lock if that is to be had; gives why no work is handed out."""
        shared = self._shared
        while not (has_lock := shared.condition.acquire(timeout=_STATUS_POLL_SECS)):
            if shared.store.describe_wait():
                break
        try:
            yield shared.store.describe_wait() or shared.problem
        finally:
            if has_lock:
                shared.condition.release()

    def recent_status(self) -> master_status.MasterStatus:
        """Returns the status; with hundreds of slots, that of a moment ago (the same object).

        So it takes no more than a twentieth of the time, however many ask.
        """
        if self._recent is None or self._looks.is_due(len(self._shared.nodes.slots)):
            with self._looks.duration_measured():
                self._recent = self.status()
        return self._recent

    def told_status(self) -> master_status.MasterStatus | master_status.MasterSummary:
        """Returns what the page is told each second: of hundreds of slots, only the numbers."""
        is_long = len(self._shared.nodes.slots) > MOST_TOLD
        return self.summary() if is_long else self.status()

    def list_slots(
        self, *, after: int = -1, limit: int | None = None, trial_id: int | None = None
    ) -> list[master_status.SlotStatus]:
        """Returns slots and who holds them, by number; only those that are listed are looked at.

        Args:
            after: Number after which they begin.
            limit: Most slots; None for all.
            trial_id: Trial whose slots they are; None for all.
        """
        with self._snapshot_lock():
            nodes = self._shared.nodes
            numbers: Sequence[int] = nodes.list_numbers()
            if trial_id is not None:
                live = self._shared.launches_by_trial.get(trial_id)
                held = () if live is None else live.record.slots
                numbers = sorted(set(held) & nodes.slots.keys())
            begin = bisect.bisect_right(numbers, after)
            end = None if limit is None else begin + limit
            return [self._describe_slot(number) for number in numbers[begin:end]]

    def _describe_slot(self, number: int) -> master_status.SlotStatus:
        nodes = self._shared.nodes
        slot, live = (
            nodes.slots[number],
            self._shared.launches_by_trial.get(nodes.holders.get(number, 0)),
        )
        return master_status.SlotStatus(
            id=number,
            kind=slot.kind.value,
            device=slot.device,
            num_threads=slot.num_threads,
            trial_id=None if live is None else live.record.trial_id,
            experiment_id=None if live is None else live.record.experiment_id,
            node=slot.node,
        )

    def _build_status(self, problem: str) -> master_status.MasterStatus:
        return master_status.MasterStatus(
            slots=tuple(map(self._describe_slot, self._shared.nodes.list_numbers())),
            experiments=self._describe_all(self._describe),
            problem=problem,
            slow_start=self._launcher.find_slowness(),
        )

    def _describe_all(self, describe: Callable[[int], T]) -> tuple[T, ...]:
        described = []
        for each in sorted(self._shared.entries):
            with self._shared.failures_contained(each, "while its forecast was made"):
                described.append(describe(each))
        return tuple(described)

    def describe(self, experiment_id: int) -> master_status.ExperimentStatus | None:
        """Returns how far an experiment is, with its trials; None if it has ended."""
        with self._snapshot_lock():
            if experiment_id not in self._shared.entries:
                return None
            return self._describe(experiment_id)

    def status_of(self, experiment_id: int) -> master_status.ExperimentStatus | None:
        """Returns how far an experiment is, without its waiting trials; None if it has ended."""
        with self._shared.condition:
            entry = self._shared.entries.get(experiment_id)
            if entry is None:
                return None
            return master_status.ExperimentStatus(
                experiment_id, entry.machine.state, entry.machine.progress
            )

    def _describe(self, experiment_id: int) -> master_status.ExperimentStatus:
        shared = self._shared
        entry = shared.entries[experiment_id]
        launches = shared.launches_by_experiment.get(experiment_id, {})
        running = tuple(sorted(launches))
        is_active = entry.machine.state is states.ExperimentState.ACTIVE
        waiting = tuple(entry.list_waiting(shared.launches_by_trial)) if is_active else ()
        return master_status.ExperimentStatus(
            experiment_id=experiment_id,
            state=entry.machine.state,
            progress=entry.find_progress(launches.values()),
            eta_secs=estimate_secs(entry, launches) if is_active else None,
            running_trials=running,
            work=tuple(entry.describe_work(launches[trial_id]) for trial_id in running),
            waiting_trials=waiting,
            lack=shared.nodes.find_lack(entry.config.resources) if waiting else "",
            waits_for=entry.describe_wait(),
        )

    def _summarise(self, experiment_id: int) -> master_status.ExperimentSummary:
        shared = self._shared
        entry = shared.entries[experiment_id]
        launches = shared.launches_by_experiment.get(experiment_id, {})
        is_active = entry.machine.state is states.ExperimentState.ACTIVE
        num_waiting = entry.count_all_waiting(shared.launches_by_trial) if is_active else 0
        return master_status.ExperimentSummary(
            experiment_id=experiment_id,
            state=entry.machine.state,
            progress=entry.find_progress(launches.values()),
            eta_secs=estimate_secs(entry, launches) if is_active else None,
            num_running=len(launches),
            num_slots=shared.used[experiment_id],
            num_waiting=num_waiting,
            lack=shared.nodes.find_lack(entry.config.resources) if num_waiting else "",
            waits_for=entry.describe_wait(),
        )


def estimate_secs(entry: entries.Entry, launches: Mapping[int, entries.LiveLaunch]) -> float | None:
    """Returns the seconds until a search is over, or None if nothing is known yet.

    What is left is what the search method expects, or what is left of the budget of time. It is as
    fast as the last workloads were that this master has seen, in as many trials at once as run now.

    Args:
        entry: The experiment.
        launches: Its launches that run, by trial.
    """
    machine = entry.machine
    if machine.state.is_stopping or machine.search.is_over:
        return 0.0
    secs = machine.find_time_left(active_time.now())
    if launches:
        secs = min(secs, _estimate_work_secs(entry, launches) / len(launches))
    return max(secs, 0.0) if math.isfinite(secs) else None


def _estimate_work_secs(entry: entries.Entry, launches: Mapping[int, entries.LiveLaunch]) -> float:
    """Returns the seconds of all workloads to come, less what was spent on those that run."""
    search = entry.machine.search
    num_left = search.num_left_batches
    train_secs, validate_secs = entry.training.secs_per_batch, entry.validation.secs_per_batch
    if train_secs is None:
        train_secs = entry.noted.secs_per_batch
    if train_secs is None or (validate_secs is None and not num_left):
        # Nothing but validations is to come, and none was seen.
        return math.inf
    validate_secs = validate_secs or 0.0
    secs = num_left * train_secs + (num_left + search.num_unvalidated_batches) * validate_secs
    for trial_id, live in launches.items():
        if live.outstanding is None:
            continue
        expected_secs = live.outstanding.num_batches * train_secs
        if live.outstanding.kind is workload.WorkloadKind.VALIDATE:
            expected_secs = entry.machine_of(trial_id).num_unvalidated_batches * validate_secs
        secs -= min(time.monotonic() - live.since, expected_secs)
    return secs
