"""Scheduling loop of the master: starts, watches and ends processes."""

import logging
import time
from typing import Final

from quintain import errors
from quintain.files import changing_files
from quintain.master import (
    checkpoint_gc,
    entries,
    log_deduplication,
    log_policies,
    shared_state,
    slot_assignment,
    throttle,
)
from quintain.master.machine import active_time
from quintain.master.processes import launch_tokens
from quintain.master.processes import launcher as launcher_lib
from quintain.master.workers import process_exits, worker_calls
from quintain.records import checkpoint_manifest
from quintain.records.rows import deletion, exit_codes, launch, log, states
from quintain.records.rows import node as node_lib
from quintain.store import session as session_lib

logger = logging.getLogger(__name__)

EXIT_GRACE_SECS: Final = 60.0
"""How long a process that was told to end, or said that it ends, may take."""

_DRAINING: Final = node_lib.NodeState.DRAINING

_STOPPED_SECS: Final = 5.0
"""Between two ticks passes less, unless the process was stopped (Ctrl-Z), or the machine."""

_FEW: Final = 50
"""So many processes are looked at in each tick, even if all were looked at lately."""

_MOST_DOUBLED: Final = 5
LAUNCH_PAUSE_SECS: Final = 2.0
"""Pause after a process could not be started or was lost."""


class Scheduling:
    """Starts, watches and ends processes. `tick` is called by one thread only.

    Attributes:
        deduplication: Recognises lines of processes that were taken over.
    """

    def __init__(
        self,
        shared: shared_state.SharedState,
        workers: worker_calls.WorkerCalls,
        launcher: launcher_lib.Launcher,
        *,
        address: str,
        launch_key: launch_tokens.LaunchKey,
    ) -> None:
        self._shared = shared
        self._launcher = launcher
        shared.nodes.most_slots = launcher.find_most_slots()
        self._assignment = slot_assignment.SlotAssignment(
            shared,
            workers,
            launcher,
            address=address,
            launch_key=launch_key,
            note_lost=self.note_lost,
        )
        self._exits: list[launcher_lib.ProcessExit] = []
        self._lines: list[log.LogRow] = []
        self.deduplication = log_deduplication.LogDeduplication(shared.store)
        self._last_tick = time.monotonic()
        self._last_watch = self._last_tick
        self._unwatched: list[entries.LiveLaunch] = []
        self._collection = throttle.Throttle()

    def tick(self) -> None:
        """Does all that can be done now, without waiting."""
        try:
            self._tick()
        except OSError as error:
            if not self._shared.note_loss(error):
                raise

    def _tick(self) -> None:
        shared = self._shared
        self._forgive_stop()
        with shared.condition:
            shared.check_problem()
            if shared.problem:
                return
        self._exits += self._launcher.poll()
        has_rest = bool(self._lines)
        if not has_rest:
            self._lines = self._launcher.read_logs()
        listed = self._launcher.list_nodes()
        with shared.condition:
            try:
                self._keep_nodes(listed)
                self._keep_lines()
                if has_rest:
                    # Not before: it confirms that those of the call before are kept.
                    self._lines = self._launcher.read_logs()
                    self._keep_lines()
                while self._exits:
                    self._take_exit(self._exits[0])
                    del self._exits[0]
                self._end_overdue()
                self._end_launches()
                self._finish_experiments()
                if self._collection.is_due(len(shared.launches_by_trial)):
                    with self._collection.duration_measured():
                        checkpoint_gc.collect_running(shared)
                starts = self._assignment.choose()
            except errors.StoreError as error:
                shared.note_problem(str(error))
                return
        for launches in starts:
            self._assignment.launch(launches)

    def _forgive_stop(self) -> None:
        """Counts no time against trials in which this process was stopped, and answered nobody."""
        now = time.monotonic()
        stopped, self._last_tick = now - self._last_tick, now
        if stopped > _STOPPED_SECS:
            with self._shared.condition:
                for live in self._shared.launches_by_trial.values():
                    live.since += stopped

    def kill(self, live: entries.LiveLaunch, reason: str = "") -> None:
        """Ends a process at once; with a reason, this is a failure of the trial."""
        if not live.is_killed:
            live.is_killed, live.kill_reason = True, reason
            self._kill_members(live)

    def _kill_members(self, live: entries.LiveLaunch) -> None:
        for rank in range(len(live.record.members)):
            if rank not in live.ended:
                self._launcher.kill(launch.member_name(live.record.launch_id, rank))

    # What happened.

    def _keep_nodes(self, listed: list[node_lib.Node]) -> None:
        """Lets machines join and leave; the trials of those that are drained save themselves."""
        shared = self._shared
        nodes = shared.nodes
        nodes.refresh(listed)

        def write(session: session_lib.Session) -> None:
            for each in nodes.unsaved.values():
                session.save_node(each)

        if nodes.unsaved:
            shared.write(write)
            nodes.unsaved.clear()
        while nodes.changed:
            name = nodes.changed.pop()
            for trial_id in nodes.trials.get(name, ()):
                if name in nodes.nodes and nodes.nodes[name].state is _DRAINING:
                    shared.preempt(shared.launches_by_trial[trial_id])
                shared.recount(shared.launches_by_trial[trial_id])

    def _keep_lines(self) -> None:
        if self._lines:
            self._lines = self.deduplication.drop(self._lines)
            lines = [line for line in self._lines if self._is_known(line.trial_id)]
            log_policies.note_lines(self._shared, lines)
            self._shared.write(lambda session: session.add_logs(lines))
            self._lines = []

    def _is_known(self, trial_id: int) -> bool:
        """Returns whether there is such a trial; its experiment may have been deleted meanwhile."""
        if any(trial_id in entry.request_ids for entry in self._shared.entries.values()):
            return True
        with self._shared.store.reading() as session:
            try:
                session.get_trial(trial_id)
            except errors.NotFoundError:
                return False
        return True

    def _take_exit(self, ended: launcher_lib.ProcessExit) -> None:
        shared = self._shared
        launch_id, rank = launch.split_member(ended.launch_id)
        live = shared.launches_by_trial.get(ended.trial_id)
        if live is None or live.record.launch_id != launch_id:
            shared.write(lambda session: session.delete_launch(launch_id))
            self._launcher.forget(ended.launch_id)
            return
        self._note_exit(live, rank, ended)

    def note_lost(self, live: entries.LiveLaunch, rank: int, reason: str) -> None:
        """Notes that a process is not there, or never was, as far as it is known.

        Args:
            live: The start.
            rank: Which of its processes.
            reason: Why.
        """
        record = live.record
        name = launch.member_name(record.launch_id, rank)
        ended = launcher_lib.ProcessExit(name, record.trial_id, None, None, reason=reason)
        try:
            self._note_exit(live, rank, ended)
        except errors.StoreError:
            self._exits.append(ended)

    def _note_exit(
        self, live: entries.LiveLaunch, rank: int, ended: launcher_lib.ProcessExit
    ) -> None:
        """Records an exit once all processes of the start are gone, which one that fails ends."""
        live.ended.setdefault(rank, ended)
        if len(live.ended) == len(live.record.members):
            self._contain_exit(live, process_exits.find_cause(live))
        elif live.record.state is not launch.LaunchState.ENDING or not process_exits.is_regular(
            ended
        ):
            self._kill_members(live)

    def _contain_exit(self, live: entries.LiveLaunch, ended: launcher_lib.ProcessExit) -> None:
        """Records an exit; the slots are free afterwards whatever that raises."""
        shared, trial_id = self._shared, live.record.trial_id
        if live.record.experiment_id in shared.entries:
            with shared.failures_contained(
                live.record.experiment_id, f"when trial {trial_id} ended"
            ):
                self._record_exit(live, ended)
        if shared.launches_by_trial.get(trial_id) is live:
            shared.write(lambda session: forget_launch(shared, session, live.record))
            shared.drop_launch(live)
        for rank in range(len(live.record.members)):
            self._launcher.forget(launch.member_name(live.record.launch_id, rank))

    def _record_exit(self, live: entries.LiveLaunch, ended: launcher_lib.ProcessExit) -> None:
        """Notes that a process is gone, and what this means for its trial."""
        shared, trial_id = self._shared, live.record.trial_id
        entry = shared.entry(live.record.experiment_id)
        if live.exit_event is not None and process_exits.is_lost(ended) and live.record.others:
            # What another process said of its end follows from the loss.
            live.exit_event, live.is_exit_known = None, False
        pause = 0.0
        event = live.exit_event or process_exits.describe(entry, live, ended)
        if event is not None:
            log_policies.decide(event, entry, live, shared.nodes)

        def write(session: session_lib.Session) -> None:
            forget_launch(shared, session, live.record)
            if event is not None:
                session.add_logs([shared.log(trial_id, str(event["reason"]))])

        if event is None:
            shared.write(write)
        else:
            shared.apply(entry, event, write)
            if not event.get("is_counted", True):
                # What keeps processes from being started, as a full disk, lasts longer each time.
                further = min(entry.machine_of(trial_id).losses, _MOST_DOUBLED) - 1
                pause = time.monotonic() + LAUNCH_PAUSE_SECS * 2 ** max(further, 0)
            if ended.exit_code == exit_codes.ExitCode.NO_ROOM:
                # It starts again and again until somebody makes room, who has to be told.
                said = str(event["reason"]).partition("\n")[0]
                logger.warning("Experiment %d: trial %d starts again: %s", entry.id, trial_id, said)
        shared.drop_launch(live)
        shared.entry(entry.id).enqueue(trial_id, pause)
        shared.notify()

    # What has to end.

    def _end_overdue(self) -> None:
        """Ends experiments whose budget of time is used up; their trials save themselves."""
        for entry in list(self._shared.entries.values()):
            with self._shared.failures_contained(
                entry.id, "while its budget of time was looked at"
            ):
                machine = entry.machine
                is_active = machine.state is states.ExperimentState.ACTIVE
                if is_active and machine.find_time_left(active_time.now()) <= 0:
                    reason = (
                        f"searcher.time_budget: {entry.config.searcher.time_budget:g} s are up."
                    )
                    self._shared.apply(entry, {"kind": "time_up", "reason": reason})

    def _end_launches(self) -> None:
        """Looks at processes: at few of them always, at many once a second, some at a time."""
        shared, now = self._shared, time.monotonic()
        part, self._last_watch = min(now - self._last_watch, 1.0), now
        if not self._unwatched:
            self._unwatched = list(shared.launches_by_trial.values())
        count = max(_FEW, int(part * len(shared.launches_by_trial)))
        watched = self._unwatched[-count:]
        del self._unwatched[-count:]
        by_experiment: dict[int, list[entries.LiveLaunch]] = {}
        for live in watched:
            if not live.is_killed and shared.launches_by_trial.get(live.record.trial_id) is live:
                by_experiment.setdefault(live.record.experiment_id, []).append(live)
        for experiment_id, own in by_experiment.items():
            if experiment_id not in shared.entries:
                for live in own:
                    self.kill(live)
                continue
            with shared.failures_contained(experiment_id, "while its trials were watched"):
                entry = shared.entry(experiment_id)
                timeout = entry.config.workload_timeout
                for live in own:
                    self._end_run(entry, live, now - live.since, timeout)

    def _end_run(
        self, entry: entries.Entry, live: entries.LiveLaunch, age: float, timeout: float | None
    ) -> None:
        machine = entry.machine_of(live.record.trial_id)
        if entry.machine.is_killed or machine.state is states.TrialState.CANCELED:
            self.kill(live)
        elif live.record.state is launch.LaunchState.ENDING:
            if age > EXIT_GRACE_SECS:
                self.kill(live)
        elif live.record.trial_id in entry.waits:
            pass  # It is not slow, and says what it waits for.
        elif timeout is not None and age > timeout and live.idle_since is None:
            work = live.outstanding
            doing = "start" if work is None else f"do workload {work.number} ({work.kind})"
            self.kill(live, f"workload_timeout: the trial took more than {timeout:g} s to {doing}.")

    def _finish_experiments(self) -> None:
        for experiment_id in list(self._shared.entries):
            if experiment_id not in self._shared.launches_by_experiment:
                with self._shared.failures_contained(experiment_id, "while it was ended"):
                    self._finish_experiment(experiment_id)

    def _finish_experiment(self, experiment_id: int) -> None:
        entry = self._shared.entry(experiment_id)
        if not entry.machine.state.is_stopping:
            return
        self._shared.apply(entry, {"kind": "drained"})
        del self._shared.entries[experiment_id]
        checkpoint_gc.collect_ended(self._shared, entry)
        self._clear_scratch(experiment_id)

    def _clear_scratch(self, experiment_id: int) -> None:
        """Lets the scratch files of an ended experiment go, process by process."""
        shared = self._shared
        root = shared.home / "scratch" / str(experiment_id)
        names = [path.name for path in changing_files.list_directory(root)]
        # One by one: if the experiment is continued, it has new ones beside them.
        notes = shared.deletions.note(deletion.DeletionKind.SCRATCH, root, names, experiment_id)
        shared.write(lambda session: session.add_deletions(notes))


def forget_launch(
    shared: shared_state.SharedState, session: session_lib.Session, record: launch.Launch
) -> None:
    """Forgets a process that is gone, and lets go of what it had begun to save.

    Args:
        shared: The master's state.
        session: A writing transaction.
        record: The process.
    """
    session.delete_launch(record.launch_id)
    try:
        storage = shared.find_storage(session, record.experiment_id)
    except errors.NotFoundError:  # It was deleted, with all its directories.
        return
    name = checkpoint_manifest.unfinished_name(record.launch_id)
    if storage.may_have(name):
        kind, address = deletion.DeletionKind.UNFINISHED, storage.address
        session.add_deletions(shared.deletions.note(kind, address, [name], record.experiment_id))
