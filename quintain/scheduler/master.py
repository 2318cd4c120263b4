"""The master: what experiments do, who holds which slot, and what trial processes are asked.

This is the face of the scheduler; the work is done by `commands` (what users ask), `worker_calls`
(what processes ask), `scheduling` (what processes there are) and `recovery` (what a former master
left). All of them change experiments through `core`, in one transaction for each event.
"""

import logging
import pathlib
import threading
import time
from collections.abc import Mapping, Sequence
from typing import Any, Final

from quintain import errors
from quintain.records import checkpoint, experiment, master_status, run, states, trial, workload
from quintain.scheduler import (
    commands,
    eta,
    launch_tokens,
    orphans,
    recovery,
    scheduling,
    worker_calls,
)
from quintain.scheduler import core as core_lib
from quintain.scheduler import launcher as launcher_lib
from quintain.scheduler import slots as slots_lib
from quintain.store import store as store_lib

logger = logging.getLogger(__name__)

TICK_SECS: Final = 0.1
"""How often processes are looked after at least."""

_STATUS_POLL_SECS: Final = 0.2
"""How often somebody who asks for the status looks whether the lock will be free soon."""

ENDING_TICK_SECS: Final = 0.01
"""The same while one of them is about to end."""


class Master:
    """Runs experiments. All methods may be called from several threads."""

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
        self._core = core_lib.Core(store, home)
        self._workers = worker_calls.WorkerCalls(self._core, idle_secs=idle_secs)
        self._slots = tuple(slots)
        self._launcher = launcher
        self._processes = scheduling.Scheduling(
            self._core,
            self._workers,
            launcher,
            slots,
            address=address,
            launch_key=launch_key or launch_tokens.LaunchKey.generate(),
        )
        self._commands = commands.Commands(self._core, self._processes)
        self._accept_new_database = accept_new_database
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
        self._core.deletions.wake.set()
        for name, work in (("scheduler", self._run), ("deletions", self._run_deletions)):
            thread = threading.Thread(target=work, name=f"quintain-{name}", daemon=True)
            self._threads.append(thread)
            thread.start()

    def recover(self) -> None:
        """Takes up the experiments of the store, and their processes; schedules nothing."""
        self._core.home.mkdir(parents=True, exist_ok=True)
        recovery.recover(
            self._core,
            self._processes,
            self._launcher,
            accept_new_database=self._accept_new_database,
        )

    def stop(self) -> None:
        """Stops scheduling. Processes go on; another master takes them over."""
        self._is_stopped.set()
        with self._core.condition:
            self._workers.is_closed = True
            self._core.notify()
        self._core.deletions.wake.set()
        for thread in self._threads:
            thread.join()
        self._threads.clear()

    def tick(self) -> None:
        """Does all of the scheduling that can be done now; `start` does this in threads."""
        self._processes.tick()
        self._core.deletions.run()

    def drain(self, experiment_id: int | None = None) -> None:
        """Pauses one experiment, or all, and waits until none of their processes runs."""
        core = self._core
        with core.condition:
            chosen = [
                entry.id for entry in core.entries.values() if experiment_id in (None, entry.id)
            ]
        for each in chosen:
            try:
                self.pause(each)
            except errors.StateError:
                logger.info("Experiment %d ends by itself.", each)
        while not self._is_stopped.is_set():
            if not self._threads:
                self.tick()
            with core.condition:
                if not any(live.record.experiment_id in chosen for live in core.runs.values()):
                    return
                core.condition.wait(TICK_SECS)

    def _run(self) -> None:
        while not self._is_stopped.is_set():
            self._core.wake.clear()
            try:
                self._processes.tick()
            except Exception:
                # What one experiment raises has ended that one; this concerns all of them.
                logger.exception("The scheduling failed and is tried again.")
                time.sleep(1.0)
            self._core.wake.wait(ENDING_TICK_SECS if self._is_any_ending() else TICK_SECS)

    def _run_deletions(self) -> None:
        """Deletes what was noted; it may take long, and nobody waits for it."""
        deletions = self._core.deletions
        is_last = False
        while not is_last:
            deletions.wake.wait()
            is_last = self._is_stopped.is_set()
            # Who notes something holds the lock until it is stored.
            with self._core.condition:
                deletions.wake.clear()
            deletions.run()

    def _is_any_ending(self) -> bool:
        """Whether a slot becomes free at any moment: its next process should not wait."""
        with self._core.condition:
            runs = self._core.runs.values()
            return any(live.record.state is run.RunState.ENDING for live in runs)

    # Commands of users.

    def create_experiment(
        self,
        config_text: str,
        model_dir: pathlib.Path | None,
        *,
        source: str = "config",
        overrides: Sequence[str] = (),
        parent_id: int | None = None,
        activate: bool = True,
    ) -> experiment.Experiment:
        """Creates an experiment and copies the user's code.

        Args:
            config_text: The config, as YAML.
            model_dir: Directory with the user's code, or None if there is none. What
                `.quintainignore` or `.detignore` names in it is left out.
            source: Name of the config, for messages.
            overrides: `path=value` each; they win over the config.
            parent_id: Experiment that it was forked from.
            activate: Whether it starts at once; else it is paused.

        Raises:
            ConfigError: Listing all that is wrong.
        """
        config = commands.read_config(config_text, source, overrides)
        return self._commands.create(
            config, config_text, model_dir, parent_id=parent_id, activate=activate
        )

    def pause(self, experiment_id: int) -> experiment.Experiment:
        """Lets trials finish their workload, save themselves, and give back their slots.

        Raises:
            StateError: If the experiment is ending, or has ended.
        """
        return self._commands.command(experiment_id, "pause")

    def activate(self, experiment_id: int) -> experiment.Experiment:
        """Lets a paused experiment go on.

        Raises:
            StateError: If the experiment is ending, or has ended.
        """
        return self._commands.command(experiment_id, "activate")

    def cancel(self, experiment_id: int) -> experiment.Experiment:
        """Ends an experiment; trials finish their workload and save themselves.

        Raises:
            StateError: If it has ended otherwise.
        """
        return self._commands.command(experiment_id, "cancel")

    def kill(self, experiment_id: int) -> experiment.Experiment:
        """Ends an experiment and its processes at once; what is not saved is lost.

        Raises:
            StateError: If it has ended otherwise.
        """
        return self._commands.command(experiment_id, "kill")

    def archive(self, experiment_id: int) -> experiment.Experiment:
        """Leaves an ended experiment out of lists.

        Raises:
            StateError: If it has not ended.
        """
        return self._commands.set_archived(experiment_id, is_archived=True)

    def unarchive(self, experiment_id: int) -> experiment.Experiment:
        """Takes an archived experiment back.

        Raises:
            StateError: If it has not ended.
        """
        return self._commands.set_archived(experiment_id, is_archived=False)

    def delete(self, experiment_id: int) -> experiment.Experiment:
        """Deletes an ended experiment with all its files; returns its last record.

        Raises:
            StateError: If it has not ended, or trials elsewhere start from its checkpoints.
        """
        return self._commands.delete(experiment_id)

    def update_experiment(
        self,
        experiment_id: int,
        *,
        description: str | None = None,
        labels: Sequence[str] | None = None,
        weight: float | None = None,
        max_slots: int | None = None,
        priority: int | None = None,
        max_trials: int | None = None,
        checkpoint_storage: Mapping[str, int] | None = None,
    ) -> experiment.Experiment:
        """Changes what may be changed while an experiment runs, or later.

        Args:
            experiment_id: The experiment.
            description: The user's words for it.
            labels: All of its labels.
            weight: Its share of the slots.
            max_slots: Most slots that it may hold; 0 for no limit.
            priority: 1 to 99; smaller numbers are served first.
            max_trials: More trials than before; a search that was over goes on.
            checkpoint_storage: New `save_experiment_best`, `save_trial_best`, `save_trial_latest`;
                of an ended experiment, what need not be kept any more is deleted.

        Raises:
            ConfigError: If a value is not allowed.
            StateError: If the search can't be given more trials.
        """
        resources: dict[str, Any] = {}
        for name, value in (("weight", weight), ("max_slots", max_slots), ("priority", priority)):
            if value is not None:
                resources[name] = None if name == "max_slots" and value == 0 else value
        return self._commands.update(
            experiment_id,
            description=description,
            labels=labels,
            resources=resources,
            max_trials=max_trials,
            checkpoint_storage=checkpoint_storage,
        )

    def kill_trial(self, trial_id: int) -> trial.Trial:
        """Ends a trial at once; the search goes on without it.

        Raises:
            StateError: If it has ended by itself.
        """
        return self._commands.kill_trial(trial_id)

    def rerun_trial(self, trial_id: int) -> experiment.Experiment:
        """Creates an experiment of one trial, with the hyperparameters and seed of this one."""
        return self._commands.rerun_trial(trial_id)

    def fork(
        self,
        experiment_id: int,
        config_text: str | None = None,
        *,
        model_dir: pathlib.Path | None = None,
        overrides: Sequence[str] = (),
        activate: bool = True,
    ) -> experiment.Experiment:
        """Creates an experiment from another one; what is not given is taken from that."""
        return self._commands.fork(
            experiment_id, config_text, model_dir, overrides, activate=activate
        )

    def continue_experiment(
        self, experiment_id: int, overrides: Sequence[str] = ()
    ) -> experiment.Experiment:
        """Takes up an ended experiment again, under the same number.

        Trials that its end interrupted go on from their last checkpoints. Where the search method
        trains each trial by itself (`single`, `random`, `grid`), trials that failed get their
        restarts anew; and if `searcher.max_length` is raised, all trials are trained further.

        Raises:
            StateError: If it has not ended, nothing can go on, or the search can't go on with
                what `overrides` change.
        """
        return self._commands.continue_experiment(experiment_id, overrides)

    def delete_checkpoint(self, uuid: str) -> checkpoint.Checkpoint:
        """Deletes the files of a checkpoint; returns its record.

        Raises:
            StateError: If a trial that has not ended goes on from it.
        """
        return self._commands.delete_checkpoint(uuid)

    def adopt_orphan(self, name: str) -> checkpoint.Checkpoint:
        """Gives a checkpoint that the store does not know to the experiment that it names.

        Raises:
            NotFoundError: If there is none of this name.
            CheckpointError: If it is damaged, or the store does not have what it names.
        """
        return orphans.adopt(self._core, name)

    def delete_orphan(self, name: str) -> checkpoint.Orphan:
        """Deletes a directory among the checkpoints that the store does not know.

        Raises:
            NotFoundError: If there is none of this name.
        """
        return orphans.delete(self._core, name)

    # Calls of workers.

    def start_run(self, trial_id: int, identity: trial.ProcessIdentity) -> trial.TrialSpec:
        """Returns what a process that was just started, or lost the master, has to know.

        Raises:
            GoneError: If this run is not wanted any more.
        """
        return self._workers.start_run(trial_id, identity)

    def next_workload(self, trial_id: int, launch_id: str, wait: float) -> workload.Workload | None:
        """Returns the next workload, or None if there is none within `wait` seconds.

        Until its result is reported, the same workload is returned.

        Raises:
            GoneError: If this run is not wanted any more.
        """
        return self._workers.next_workload(trial_id, launch_id, wait)

    def report(self, trial_id: int, launch_id: str, result: workload.WorkloadResult) -> None:
        """Takes a result; the same one twice is no error.

        Raises:
            GoneError: If this run is not wanted any more.
        """
        self._workers.report(trial_id, launch_id, result)

    def report_damage(
        self, trial_id: int, launch_id: str, uuid: str, damage: str
    ) -> trial.TrialSpec:
        """Takes what is wrong with a checkpoint; returns the trial with the one before.

        Raises:
            CheckpointError: If it is another trial's, from which this one has to begin.
            GoneError: If this run is not wanted any more.
        """
        return self._workers.report_damage(trial_id, launch_id, uuid, damage)

    def report_exit(
        self, trial_id: int, launch_id: str, reason: workload.ExitedReason, message: str
    ) -> None:
        """Takes the reason of a process that ends by itself.

        Raises:
            GoneError: If this run is not wanted any more.
        """
        self._workers.report_exit(trial_id, launch_id, reason, message)

    # Views.

    def status(self) -> master_status.MasterStatus:
        """Returns who holds which slot, and how far experiments are.

        It does not wait for a transaction that waits for another program: while one does, nothing
        else changes what is in memory.
        """
        core = self._core
        while not (has_lock := core.condition.acquire(timeout=_STATUS_POLL_SECS)):
            if core.store.describe_wait():
                break
        try:
            return self._build_status(core.problem or core.store.describe_wait())
        finally:
            if has_lock:
                core.condition.release()

    def _build_status(self, problem: str) -> master_status.MasterStatus:
        holders = self._processes.holders()
        shown_slots = []
        for slot in self._slots:
            live = holders.get(slot.id)
            shown_slots.append(
                master_status.SlotStatus(
                    id=slot.id,
                    kind=slot.kind.value,
                    device=slot.device,
                    num_threads=slot.num_threads,
                    trial_id=None if live is None else live.record.trial_id,
                    experiment_id=None if live is None else live.record.experiment_id,
                )
            )
        described = []
        for each in sorted(self._core.entries):
            with self._core.containing(each, "while its forecast was made"):
                described.append(self._describe(each))
        return master_status.MasterStatus(
            slots=tuple(shown_slots),
            experiments=tuple(described),
            problem=problem,
            slow_start=self._launcher.find_slowness(),
        )

    def status_of(self, experiment_id: int) -> master_status.ExperimentStatus | None:
        """Returns how far an experiment is, without its waiting trials; None if it has ended."""
        with self._core.condition:
            entry = self._core.entries.get(experiment_id)
            if entry is None:
                return None
            return master_status.ExperimentStatus(
                experiment_id, entry.machine.state, entry.machine.progress
            )

    def _describe(self, experiment_id: int) -> master_status.ExperimentStatus:
        core = self._core
        entry = core.entries[experiment_id]
        running = tuple(
            sorted(
                trial_id
                for trial_id, live in list(core.runs.items())
                if live.record.experiment_id == experiment_id
            )
        )
        is_active = entry.machine.state is states.ExperimentState.ACTIVE
        return master_status.ExperimentStatus(
            experiment_id=experiment_id,
            state=entry.machine.state,
            progress=entry.machine.progress,
            eta_secs=eta.estimate_secs(entry, len(running)) if is_active else None,
            running_trials=running,
            waiting_trials=tuple(entry.list_waiting(core.runs)) if is_active else (),
        )
