"""State that the threads of the master share: experiments in memory, launches, and one lock."""

import collections
import contextlib
import dataclasses
import logging
import os
import pathlib
import shutil
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

from quintain import errors
from quintain.files import disk_errors
from quintain.master import entries, unexpected_errors
from quintain.master.cleanup import deletions, home_identity
from quintain.master.machine import active_time
from quintain.master.machine import effects as effects_lib
from quintain.master.placing import node_table
from quintain.records.rows import deletion, experiment, launch, log, states
from quintain.records.rows import slot as slot_lib
from quintain.storage import checkpoint_storage, storages
from quintain.store import database_errors
from quintain.store import session as session_lib
from quintain.store import store as store_lib

logger = logging.getLogger(__name__)

MIN_FREE_BYTES: Final = 32 * 2**20
"""Free space on the disk of the home directory below which no work is handed out."""

_CHECK_SECS: Final = 1.0
"""How often it is looked whether a problem is over."""

Write = Callable[[session_lib.Session], None]


class SharedState:
    """The experiments in memory and the one way to change them.

    Attributes:
        store: Where everything is kept.
        home: Directory of the platform.
        nodes: The machines and their slots.
        condition: Held by whoever reads or changes what is in memory; notified of changes.
        entries: Experiments that have not ended, by number.
        launches_by_trial: Launches by trial; `add_launch` and `drop_launch` change it.
        launches_by_id: The same by their ids.
        launches_by_experiment: The same by experiment.
        held: Slots that the processes of experiments hold and keep.
        used: Slots that they hold, also those that they are about to give back.
        ending: Trials whose processes were told to end.
        problem: Why no work is handed out now, or an empty text.
        deletions: Deletes directories.
        grown: Trials that were saved since their older checkpoints were looked through.
    """

    def __init__(
        self, store: store_lib.Store, home: pathlib.Path, slots: Sequence[slot_lib.Slot] = ()
    ) -> None:
        self.store = store
        self.home = home
        self.nodes = node_table.NodeTable(slots)
        self.condition = threading.Condition(threading.RLock())
        self.entries: dict[int, entries.Entry] = {}
        self.launches_by_trial: dict[int, entries.LiveLaunch] = {}
        self.launches_by_id: dict[str, entries.LiveLaunch] = {}
        self.launches_by_experiment: dict[int, dict[int, entries.LiveLaunch]] = {}
        self.held: collections.Counter[int] = collections.Counter()
        self.used: collections.Counter[int] = collections.Counter()
        self.ending: set[int] = set()
        self.problem = ""
        self._checked = 0.0
        self.wake = threading.Event()
        self.deletions = deletions.Deletions(store, home)
        self.grown: set[int] = set()
        self._stale: set[int] = set()
        self._storages: dict[int, checkpoint_storage.CheckpointStorage] = {}

    def entry(self, experiment_id: int) -> entries.Entry:
        """Returns an experiment that has not ended.

        Raises:
            NotFoundError: If there is no such experiment.
            StateError: If it has ended.
            StoreError: If it has to be read, and the store can't be.
        """
        if experiment_id in self._stale or experiment_id not in self.entries:
            with self.store.reading() as session:
                record = session.get_experiment(experiment_id)
            if record.state.is_terminal:
                raise errors.StateError(
                    f"Experiment {experiment_id} has ended ({record.state.value})."
                )
            former = self.entries.get(experiment_id)
            loaded = self.load(experiment_id)
            if former is not None:
                loaded.training, loaded.validation = former.training, former.validation
            self.entries[experiment_id] = loaded
            self._stale.discard(experiment_id)
        return self.entries[experiment_id]

    def add_launch(self, live: entries.LiveLaunch) -> None:
        """Notes a process that holds slots."""
        self.launches_by_trial[live.record.trial_id] = self.launches_by_id[
            live.record.launch_id
        ] = live
        self.launches_by_experiment.setdefault(live.record.experiment_id, {})[
            live.record.trial_id
        ] = live
        self.used[live.record.experiment_id] += len(live.record.slots)
        for member in live.record.members:
            self.nodes.hold(live.record.trial_id, member.node, member.slots)
        self.recount(live)
        entry = self.entries.get(live.record.experiment_id)
        if entry is not None:
            entry.enqueue(live.record.trial_id)

    def drop_launch(self, live: entries.LiveLaunch) -> None:
        """Notes that a process is gone; its slots are free."""
        trial_id, owner = live.record.trial_id, live.record.experiment_id
        del self.launches_by_trial[trial_id], self.launches_by_id[live.record.launch_id]
        del self.launches_by_experiment[owner][trial_id]
        if not self.launches_by_experiment[owner]:
            del self.launches_by_experiment[owner]
        self.ending.discard(trial_id)
        if owner in self.entries:
            # Whoever starts next waits for nothing, and has to be in time.
            self.entries[owner].end_waits(trial_id)
        self.held[owner] -= live.num_counted
        self.used[owner] -= len(live.record.slots)
        for member in live.record.members:
            self.nodes.release(trial_id, member.node, member.slots)

    def recount(self, live: entries.LiveLaunch) -> None:
        """Counts the slots of a process anew that its experiment holds and keeps.

        It is called whenever the process is told to end, and when the state of its machine changes.
        """
        if live.record.state is launch.LaunchState.ENDING:
            self.ending.add(live.record.trial_id)
        counted = 0
        if not (live.is_giving_back or live.is_backfill):
            members = live.record.members
            counted = sum(len(each.slots) for each in members if self.nodes.is_active(each.node))
        self.held[live.record.experiment_id] += counted - live.num_counted
        live.num_counted = counted

    def preempt(self, live: entries.LiveLaunch) -> None:
        """Lets a process save itself and give back its slots."""
        if not live.is_preempted:
            live.is_preempted = True
            self.recount(live)
            self.condition.notify_all()

    def is_active(self, experiment_id: int) -> bool:
        """Returns whether an experiment is there and may start trials."""
        found = self.entries.get(experiment_id)
        return found is not None and found.machine.state is states.ExperimentState.ACTIVE

    def load(self, experiment_id: int) -> entries.Entry:
        """Builds an experiment from its stored events."""
        with self.store.reading() as session:
            record = session.get_experiment(experiment_id)
            events = session.list_events(experiment_id)
            trials = session.list_trials(experiment_id)
        return entries.load_entry(record, events, trials)

    def apply(
        self, entry: entries.Entry, event: Mapping[str, Any], write: Write | None = None
    ) -> effects_lib.Effects:
        """Changes an experiment by an event, in memory and, in one transaction, in the store.

        The event gets its time; `write` writes what else belongs to it.

        Raises:
            StoreError: If it can't be stored. Then nothing has changed.
        """
        event = active_time.stamp(event)
        try:
            effects = entry.machine.apply(event)
            if effects.is_ignored:
                return effects
            with self.store.transaction() as session:
                session.add_event(entry.id, event)
                entries.write_effects(session, entry, effects)
                if write is not None:
                    write(session)
        except Exception as error:
            # Memory is ahead of the store now; it is built anew from the store before its next use.
            self._stale.add(entry.id)
            if isinstance(error, errors.StoreError):
                self.note_problem(str(error))
            raise
        self.notify()
        return effects

    @contextlib.contextmanager
    def failures_contained(self, experiment_id: int, doing: str) -> Iterator[None]:
        """Ends an experiment if the block, which handles it, raises; the others go on.

        Args:
            experiment_id: The experiment.
            doing: When it happened, to be said: `while it was loaded`.

        Raises:
            StoreError: If the store fails, which concerns all experiments.
        """
        try:
            yield
        except errors.StoreError:
            raise
        except Exception as error:  # noqa: BLE001 - the border between experiments
            self.end_failed(experiment_id, doing, error)

    def end_failed(self, experiment_id: int, doing: str, error: Exception) -> None:
        """Ends an experiment with the exception that handling it raised.

        Its trials save themselves. If even that raises, or did before, its processes are killed.

        Raises:
            StoreError: If the disk of the home is lost or full, for which no experiment can help;
                or the store fails.
        """
        if isinstance(error, OSError) and (lost := self.note_loss(error)) is not None:
            self._stale.add(experiment_id)
            raise lost from error
        logger.error("Experiment %d failed %s.", experiment_id, doing, exc_info=error)
        reason = (
            f"The platform failed {doing}: {unexpected_errors.describe(error)}. "
            "The log of the master has the traceback."
        )
        with self.condition:
            # The exception may have left it half changed.
            self._stale.add(experiment_id)
            try:
                entry = self.entry(experiment_id)
                if not entry.machine.state.is_stopping:
                    self.apply(entry, {"kind": "fatal", "reason": reason})
                    return
            except errors.StoreError:
                raise
            except Exception as again:  # noqa: BLE001 - the border between experiments
                logger.error("It can't end in order: %s", unexpected_errors.describe(again))  # noqa: TRY400
            self._set_aside(experiment_id, reason)

    def note_loss(self, error: OSError) -> errors.StoreAwayError | None:
        """Returns what is wrong with the disk of the home, and stops handing out work.

        Returns:
            None if the error says nothing of that disk.
        """
        where = pathlib.Path(os.fsdecode(error.filename or self.home))
        if not where.is_relative_to(self.home):
            return None
        lost = database_errors.explain_disk(error, str(self.home))
        if lost is not None:
            with self.condition:
                self.note_problem(str(lost))
        return lost

    def _set_aside(self, experiment_id: int, reason: str) -> None:
        """Ends an experiment without asking it, and forgets it."""
        self.entries.pop(experiment_id, None)
        self._stale.discard(experiment_id)
        now = time.time()

        def write(session: session_lib.Session) -> None:
            record = session.get_experiment(experiment_id)
            if record.state.is_terminal:
                return
            # As if it had been asked: so the next one that reads the events finds the same.
            fatal = {"kind": "fatal", "time": now, "reason": reason}
            for event in (fatal, {"kind": "drained", "time": now}):
                session.add_event(experiment_id, active_time.stamp(event))
            state = states.ExperimentState.ERROR
            session.update_experiment(
                dataclasses.replace(record, state=state, reason=reason, end_time=now)
            )
            session.end_trials(experiment_id, states.TrialState.CANCELED, reason, now)

        try:
            self.write(write)
        except errors.NotFoundError:
            logger.info("Experiment %d was deleted.", experiment_id)
        self.notify()

    def write(self, write: Write) -> None:
        """Changes the store where no experiment changes.

        Raises:
            StoreError: If it can't be stored.
        """
        try:
            with self.store.transaction() as session:
                write(session)
        except errors.StoreError as error:
            self.note_problem(str(error))
            raise

    def notify(self) -> None:
        """Wakes workers that wait, and the scheduling."""
        self.condition.notify_all()
        self.wake.set()

    def note_problem(self, problem: str) -> None:
        """Stops handing out work."""
        if problem != self.problem:
            logger.warning("No work is handed out: %s", problem)
        self.problem = problem

    def check_problem(self) -> None:
        """Finds out whether work can be handed out; while it can't, once a second."""
        now = time.monotonic()
        if self.problem and now < self._checked + _CHECK_SECS:
            return
        self._checked = now
        try:
            free = shutil.disk_usage(self.home).free
            if self.deletions.home_id:  # What is mounted there, if anything is, is the home.
                os.stat(self.home / home_identity.FILE_NAME)
            if self.problem:
                disk_errors.check_disk(self.home)
        except OSError as error:
            place = os.fsdecode(error.filename or self.home)
            lost = database_errors.explain_disk(error, place)
            self.note_problem(str(lost or f"{place}: {error.strerror}."))
            return
        if free < MIN_FREE_BYTES:
            self.note_problem(
                f"The disk of {self.home} is full: {free / 2**20:.0f} MiB are free, "
                f"{MIN_FREE_BYTES // 2**20} MiB are needed."
            )
            return
        if not self.problem:
            return
        try:
            self.store.check()
        except errors.StoreError as error:
            self.note_problem(str(error))
            return
        logger.warning("Work is handed out again.")
        self.problem = ""
        self.notify()

    def log(self, trial_id: int, text: str) -> log.LogRow:
        """Returns a line of the master about a trial."""
        return log.LogRow(trial_id, time.time(), log.LogSource.MASTER, text)

    def storage_of(self, record: experiment.Experiment) -> checkpoint_storage.CheckpointStorage:
        """Returns where an experiment keeps its checkpoints; nothing is read or written."""
        return storages.build(record.config, self.home / "checkpoints")

    def find_storage(
        self, session: session_lib.Session, experiment_id: int
    ) -> checkpoint_storage.CheckpointStorage:
        """Returns the same by the experiment's number, whose row is read once: it never changes.

        Raises:
            NotFoundError: If there is no such experiment.
        """
        if experiment_id not in self._storages:
            self._storages[experiment_id] = self.storage_of(session.get_experiment(experiment_id))
        return self._storages[experiment_id]

    def note_directories(
        self, record: experiment.Experiment, uuids: Sequence[str]
    ) -> list[deletion.Deletion]:
        """Returns notes, to be stored, of all directories of an experiment."""
        note, kinds = self.deletions.note, deletion.DeletionKind
        notes = note(kinds.CHECKPOINT, self.storage_of(record).address, uuids, record.id)
        notes += note(kinds.EXPERIMENT, self.home / "scratch", [str(record.id)], record.id)
        code = pathlib.Path(record.model_dir).parent
        if record.model_dir and code.parent == self.home / "experiments":
            notes += note(kinds.EXPERIMENT, code.parent, [code.name], record.id)
        return notes

    def find_protected(self) -> set[str]:
        """Returns the checkpoints that trials which have not ended need, or models point at."""
        with self.store.reading() as session:
            registered = session.find_registered()
        return self.find_needed() | registered.keys()

    def find_needed(self) -> set[str]:
        """Returns the checkpoints from which trials that have not ended start or go on."""
        return {
            uuid
            for entry in self.entries.values()
            for trial in entry.machine.trials.values()
            if not trial.state.is_terminal
            for uuid in (trial.checkpoint, trial.source_checkpoint)
            if uuid is not None
        }
