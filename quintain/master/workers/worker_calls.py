"""Calls of trial processes to the master."""

import dataclasses
import functools
import pathlib
import time
from collections.abc import Callable
from typing import Any, Concatenate, Final, ParamSpec, TypeVar

from quintain import errors
from quintain.master import entries, shared_state, storage_marks, unexpected_errors
from quintain.master.machine import trial_machine
from quintain.master.processes import rendezvous
from quintain.master.workers import checkpoint_reports, worker_messages, workload_results
from quintain.records.rows import launch, trial, workload
from quintain.store import session as session_lib

IDLE_SECS: Final = 3.0
"""How long a process without work is kept, in case the next work comes soon."""

_Kind = workload.WorkloadKind
_EARLY: Final = (workload.ExitedReason.ERRORED_AT_START, workload.ExitedReason.UNUSABLE)


P = ParamSpec("P")
T = TypeVar("T")

Call = Callable[Concatenate["WorkerCalls", int, P], T]


def _contained(call: Call[P, T]) -> Call[P, T]:
    """Makes a call of a trial's process that raises end the experiment, and tell the process so."""

    @functools.wraps(call)
    def contained(self: "WorkerCalls", trial_id: int, /, *args: P.args, **kwargs: P.kwargs) -> T:
        live = self._shared.launches_by_trial.get(trial_id)
        if live is None:
            return call(self, trial_id, *args, **kwargs)
        try:
            return call(self, trial_id, *args, **kwargs)
        except (
            errors.MessageError,
            errors.StateError,
            errors.StoreError,
            errors.NotFoundError,
            errors.UnusableCheckpointError,
        ):
            raise  # answers to the process
        except Exception as error:  # noqa: BLE001 - the border between experiments
            doing = f"when trial {trial_id} asked the master"
            self._shared.end_failed(live.record.experiment_id, doing, error)
        # The trial saves itself; if that raises as well, it is not wanted any more.
        return contained(self, trial_id, *args, **kwargs)

    return contained


class WorkerCalls:
    """Answers trial processes. All methods may be called from several threads."""

    def __init__(self, shared: shared_state.SharedState, *, idle_secs: float = IDLE_SECS) -> None:
        self._shared = shared
        self._idle_secs = idle_secs
        self.is_crowded = False
        self.is_closed = False

    def start_run(self, trial_id: int, identity: trial.ProcessIdentity) -> trial.TrialOrder:
        """Returns what a process that was just started, or lost the master, has to know.

        Raises:
            GoneError: If this launch is not wanted any more.
            MessageError: If no process is like that.
            CheckpointError: If its checkpoints can't be kept; `NoRoomError` if they may be later.
        """
        worker_messages.check_identity(identity)
        with self._shared.condition:
            experiment_id = self.find_launch(trial_id, identity.launch_id).record.experiment_id
        storage_marks.mark(self._shared, experiment_id)
        return self._start_launch(trial_id, identity)

    @_contained
    def _start_launch(self, trial_id: int, identity: trial.ProcessIdentity) -> trial.TrialOrder:
        shared = self._shared
        with shared.condition:
            live = self.find_launch(trial_id, identity.launch_id)
            entry = shared.entry(live.record.experiment_id)
            _, rank = launch.split_member(identity.launch_id)
            entry.note_wait(trial_id, rank, "")
            if live.record.state is not launch.LaunchState.ENDING:
                known = worker_messages.complete(live.record.members[rank], identity)
                record = live.record.with_identity(rank, known)
                if rank == 0:
                    record = dataclasses.replace(record, state=launch.LaunchState.RUNNING)
                if record != live.record:
                    shared.write(lambda session: session.save_launch(record))
                    live.record = record
            return self._build_order(entry, live)

    @_contained
    def meet(
        self, trial_id: int, launch_id: str, rank: int, size: int, member: trial.Peer
    ) -> list[trial.Peer] | None:
        """Notes where a process is reached by the others of its trial; see `rendezvous.meet`.

        Raises:
            GoneError: If this launch is not wanted any more.
            MessageError: If the trial has no such process.
        """
        with self._shared.condition:
            live = self.find_launch(trial_id, launch_id)
            worker_messages.check_peer(size, len(live.record.members), member)
            directory = entries.scratch_dir(self._shared.home, live.record)
            return rendezvous.meet(directory, rank, size, member)

    def note_wait(self, trial_id: int, launch_id: str, text: str) -> None:
        """Notes what a process waits for, such as its storage; an empty text if it goes on.

        Raises:
            GoneError: If this launch is not wanted any more.
        """
        with self._shared.condition:
            live = self.find_launch(trial_id, launch_id)
            entry = self._shared.entry(live.record.experiment_id)
            entry.note_wait(trial_id, launch.split_member(launch_id)[1], text)
            if trial_id not in entry.waits:
                live.since = time.monotonic()  # Its workload may take as long as ever.

    def note_steps(self, trial_id: int, launch_id: str, number: int, batches: int) -> None:
        """Notes how many batches of a workload a process has trained on by now.

        Raises:
            GoneError: If this launch is not wanted any more.
        """
        with self._shared.condition:
            live = self.find_launch(trial_id, launch_id)
            self._shared.entry(live.record.experiment_id).note_steps(live, number, batches)

    def _build_order(self, entry: entries.Entry, live: entries.LiveLaunch) -> trial.TrialOrder:
        machine = entry.machine_of(live.record.trial_id)
        uuid = machine.checkpoint or machine.source_checkpoint
        code = pathlib.Path(entry.record.model_dir)
        if code.is_relative_to(self._shared.home):
            code = code.relative_to(self._shared.home)
        return trial.TrialOrder(
            experiment_id=entry.id,
            trial_id=live.record.trial_id,
            experiment_config=entry.record.config,
            hparams=machine.hparams,
            seed=machine.seed,
            entrypoint=entry.config.entrypoint,
            is_warm_start=machine.checkpoint is None and uuid is not None,
            slots=live.record.slots,
            home_id=self._shared.deletions.home_id,
            launch_id=live.record.launch_id,
            code_name=str(code),
            **self._describe_checkpoint(uuid),
        )

    def _describe_checkpoint(self, uuid: str | None) -> dict[str, Any]:
        """Returns what an order says of the checkpoint that its trial goes on from."""
        if uuid is None:
            return {}
        with self._shared.store.reading() as session:
            record = session.get_checkpoint(uuid)
            owner = session.get_experiment(record.experiment_id)
        return {
            "checkpoint": uuid,
            "checkpoint_experiment_id": record.experiment_id,
            "checkpoint_storage": dict(owner.config.get("checkpoint_storage") or {}),
            "checkpoint_files": record.files,
        }

    def report_damage(
        self, trial_id: int, launch_id: str, uuid: str, damage: str
    ) -> trial.TrialOrder:
        """Takes what is wrong with a checkpoint; returns the trial with the one before.

        Others may begin from another trial's as well: it is looked at before it is taken from them.

        Raises:
            CheckpointError: If it is another trial's, from which this one has to begin.
            GoneError: If this launch is not wanted any more.
        """
        shared, damage = self._shared, worker_messages.cut(damage)
        with shared.condition:
            live = self.find_launch(trial_id, launch_id)
            machine = shared.entry(live.record.experiment_id).machine_of(trial_id)
            is_others = uuid == machine.source_checkpoint and uuid != machine.checkpoint
        if is_others:
            checkpoint_reports.confirm_damage(shared, trial_id, uuid, damage)
        return self._take_damage(trial_id, launch_id, uuid, damage)

    @_contained
    def _take_damage(
        self, trial_id: int, launch_id: str, uuid: str, damage: str
    ) -> trial.TrialOrder:
        shared = self._shared
        with shared.condition:
            live = self.find_launch(trial_id, launch_id)
            entry = shared.entry(live.record.experiment_id)
            machine = entry.machine_of(trial_id)
            # The same report may come twice.
            if uuid in (machine.checkpoint, machine.source_checkpoint):
                checkpoint_reports.go_back(shared, entry, live, uuid, damage)
            return self._build_order(entry, live)

    @_contained
    def next_workload(self, trial_id: int, launch_id: str, wait: float) -> workload.Workload | None:
        """Returns the next workload, or None if there is none within `wait` seconds.

        Until its result is reported, the same workload is returned.

        Raises:
            GoneError: If this launch is not wanted any more.
        """
        shared = self._shared
        deadline = time.monotonic() + wait
        with shared.condition:
            while True:
                live = self.find_launch(trial_id, launch_id)
                if not shared.problem and not self.is_closed:
                    chosen = self._choose(live)
                    if chosen is not None:
                        return chosen
                left = deadline - time.monotonic()
                if left <= 0 or self.is_closed:
                    return None
                shared.condition.wait(min(left, 1.0))

    def _choose(self, live: entries.LiveLaunch) -> workload.Workload | None:
        if live.outstanding is not None:
            return live.outstanding
        entry = self._shared.entry(live.record.experiment_id)
        machine = entry.machine_of(live.record.trial_id)
        is_wanted = entry.machine.state.value == "ACTIVE" and not live.is_preempted
        if live.record.state is launch.LaunchState.ENDING:
            step = None
        elif is_wanted and not machine.state.is_terminal:
            step = machine.next_step()
            if step is None and self._may_wait(live):
                return None
            live.idle_since = None
            step = step or machine.closing_step()
        else:
            step = machine.closing_step()
        chosen = workload.Workload(
            kind=_Kind.TERMINATE if step is None else step.kind,
            experiment_id=entry.id,
            trial_id=live.record.trial_id,
            number=machine.num_results + 1,
            num_batches=0 if step is None else step.num_batches,
            total_batches=machine.total_batches,
        )
        if step is None:
            self._note_ending(live)
        elif step.kind is _Kind.CHECKPOINT and is_wanted and entry.may_upload(live.record):
            ahead = trial_machine.find_following(machine, chosen)
            chosen = dataclasses.replace(chosen, following=ahead)
        live.outstanding, live.since, live.has_begun = chosen, time.monotonic(), True
        return chosen

    def _may_wait(self, live: entries.LiveLaunch) -> bool:
        """Returns whether a process without work is kept for now."""
        now = time.monotonic()
        if live.idle_since is None:
            live.idle_since = now
        return not self.is_crowded and now - live.idle_since < self._idle_secs

    def _note_ending(self, live: entries.LiveLaunch) -> None:
        if live.record.state is not launch.LaunchState.ENDING:
            record = dataclasses.replace(live.record, state=launch.LaunchState.ENDING)
            self._shared.write(lambda session: session.save_launch(record))
            live.record = record
            self._shared.recount(live)

    def report(self, trial_id: int, launch_id: str, result: workload.WorkloadResult) -> None:
        """Takes a result; the same one twice is no error.

        Raises:
            GoneError: If this launch is not wanted any more.
            MessageError: If it is none of this trial.
        """
        worker_messages.check_result(trial_id, result)
        saved, is_known = result.checkpoint, False
        if saved is not None:
            with self._shared.condition:
                live = self.find_launch(trial_id, launch_id)
                entry = self._shared.entry(live.record.experiment_id)
            is_known = checkpoint_reports.check_own(self._shared, entry, trial_id, saved.uuid)
        self._take_result(trial_id, launch_id, result, is_known=is_known)

    @_contained
    def _take_result(
        self,
        trial_id: int,
        launch_id: str,
        result: workload.WorkloadResult,
        *,
        is_known: bool,
    ) -> None:
        shared, work = self._shared, result.workload
        with shared.condition:
            live = self.find_launch(trial_id, launch_id)
            entry = shared.entry(live.record.experiment_id)
            machine = entry.machine_of(trial_id)
            worker_messages.check_experiment(entry.id, work)
            if work.kind is _Kind.TERMINATE or work.number <= machine.num_results:
                if work.kind is not _Kind.TERMINATE:
                    live.outstanding = None
                return
            expected = (machine.num_results + 1, machine.total_batches)
            if (work.number, work.total_batches) != expected:
                raise errors.StateError(
                    f"Trial {trial_id} answers workload {work.number} at {work.total_batches} "
                    f"batches, but workload {expected[0]} at {expected[1]} batches is next."
                )
            if is_known:
                raise errors.MessageError("checkpoint.uuid: is that of an earlier checkpoint.")
            num_unvalidated = machine.num_unvalidated_batches
            event = workload_results.describe(entry, live.request_id, result)
            shared.apply(
                entry,
                event,
                lambda session: workload_results.write(session, entry, trial_id, result),
            )
            live.outstanding, live.since = None, time.monotonic()
            if work.kind is _Kind.CHECKPOINT:
                shared.grown.add(trial_id)
            secs = result.end_time - result.start_time
            if work.kind is _Kind.TRAIN:
                entry.training.note(work.num_batches, secs)
            if work.kind is _Kind.VALIDATE:
                entry.validation.note(num_unvalidated, secs)
        if result.exited_reason is workload.ExitedReason.ERRORED:
            self.report_exit(trial_id, launch_id, result.exited_reason, "")

    @_contained
    def report_exit(
        self, trial_id: int, launch_id: str, reason: workload.ExitedReason, message: str
    ) -> None:
        """Takes the reason of a process that ends by itself.

        Raises:
            GoneError: If this launch is not wanted any more.
        """
        shared, message = self._shared, worker_messages.cut(message)
        with shared.condition:
            live = self.find_launch(trial_id, launch_id)
            if live.is_exit_known:
                return
            entry = shared.entry(live.record.experiment_id)
            event = {
                "kind": "exit",
                "request_id": live.request_id,
                "exited_reason": reason.value,
                "reason": message,
            }
            if reason in _EARLY:
                event["error"] = unexpected_errors.find_signature(message)
            row = shared.log(
                trial_id, f"The trial's process ends: {reason.value}. {message}".strip()
            )
            record = dataclasses.replace(live.record, state=launch.LaunchState.ENDING)

            def write(session: session_lib.Session) -> None:
                session.add_logs([row])
                session.save_launch(record)

            # Of several processes, one may only fail because the machine of another is lost.
            if entry.config.log_policies or live.record.others:
                shared.write(write)
                live.exit_event = event
            else:
                shared.apply(entry, event, write)
            live.is_exit_known, live.record = True, record
            shared.recount(live)
            live.outstanding, live.since = None, time.monotonic()

    def find_launch(self, trial_id: int, launch_id: str) -> entries.LiveLaunch:
        """Returns a process that is wanted. The lock is held by the caller.

        Raises:
            GoneError: If it is not wanted any more.
        """
        live = self._shared.launches_by_trial.get(trial_id)
        start, rank = launch.split_member(launch_id)
        if (
            live is None
            or live.record.launch_id != start
            or rank > len(live.record.others)
            or live.is_killed
            or live.record.experiment_id not in self._shared.entries
        ):
            raise errors.GoneError(
                f"The launch {launch_id!r} of trial {trial_id} is not wanted any more."
            )
        return live
