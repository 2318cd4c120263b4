"""Start of trials: choice of experiments, placement, and processes."""

import dataclasses
import functools
import logging
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from typing import Final

from quintain import errors
from quintain.master import entries, reservations, shared_state, unexpected_errors
from quintain.master.placing import demand, policy, pools
from quintain.master.processes import launch_tokens
from quintain.master.processes import launcher as launcher_lib
from quintain.master.workers import worker_calls
from quintain.records.rows import launch as launch_lib
from quintain.records.rows import node as node_lib
from quintain.records.rows import slot as slot_lib
from quintain.records.rows import states, trial
from quintain.store import session as session_lib

logger = logging.getLogger(__name__)

_MOST_WEIGHT: Final = 1e100

_MOST_PASSED: Final = 32
"""Trials that are passed over because each must not have the slots that are free."""

_MOST_RESERVED: Final = 16
"""Trials of an experiment for which room is made at once."""

_Launches = list[launcher_lib.LaunchRequest]


class SlotAssignment:
    """Chooses who gets slots, and starts processes. It is used by one thread only."""

    def __init__(
        self,
        shared: shared_state.SharedState,
        workers: worker_calls.WorkerCalls,
        launcher: launcher_lib.Launcher,
        *,
        address: str,
        launch_key: launch_tokens.LaunchKey,
        note_lost: Callable[[entries.LiveLaunch, int, str], None],
        backfill_secs: float = reservations.BACKFILL_SECS,
    ) -> None:
        self._shared = shared
        self._workers = workers
        self._launcher = launcher
        self._address = address
        self._launch_key = launch_key
        self._note_lost = note_lost
        self._room = reservations.Reservations(shared, backfill_secs=backfill_secs)
        self._seen: object = None

    def choose(self) -> list[_Launches]:
        """Returns the starts that there is room for, each with all of its processes.

        Nothing is looked at again as long as nothing has changed that it depends on.
        """
        shared = self._shared
        groups = self._build_groups(time.monotonic())
        whole = shared.nodes.get_pool(pools.Needs())
        limits = shared.nodes.count_slots()
        seen = (groups, limits, whole.num_slots, whole.num_free, self._room.count_due())
        if seen == self._seen:
            return []
        self._seen = None
        was_making = self._room.is_making()
        decisions = policy.assign(groups, whole.num_slots, limits=limits)
        for experiment_id, num_slots in decisions.preempt.items():
            self._take_back(experiment_id, num_slots)
        starts = [] if decisions.preempt else self._start_all(groups, decisions)
        is_growing = not (starts or decisions.preempt) and self._grow(groups, whole.num_slots)
        num_waiting = sum(group.num_waiting for group in groups) - len(starts)
        self._workers.is_crowded = num_waiting > 0
        if self._workers.is_crowded:
            shared.condition.notify_all()
        self._keep([live for live, _ in starts])
        self._tell_lacks(groups, decisions.start)
        # While there are slots that only wait, no machine is asked for.
        if shared.nodes.most_slots is not None:
            self._launcher.ask(self._find_demand(groups))
        # What was reserved until now may be free for others.
        is_making = was_making or self._room.is_making()
        if not (starts or decisions.preempt or is_making or is_growing):
            self._seen = seen
        return [launches for _, launches in starts]

    def _grow(self, groups: list[policy.Group], num_slots: int) -> bool:
        """Lets a trial save itself that would start with more slots than it has, if one would."""
        shared = self._shared
        for group, live in self._list_small(groups):
            again = dataclasses.replace(
                group,
                num_waiting=group.num_waiting + 1,
                num_held=group.num_held - live.num_counted,
            )
            pool = shared.nodes.get_pool(shared.entry(group.experiment_id).needs)
            decisions = policy.assign(
                [again if each is group else each for each in groups],
                num_slots,
                pool.num_free + live.num_counted,
                shared.nodes.count_slots(),
            )
            size = decisions.sizes.get(group.experiment_id, 0)
            if size > len(live.record.slots):
                text = f"{size} slots are free: the trial saves itself, and goes on with them."
                rows = [shared.log(live.record.trial_id, text)]
                shared.write(functools.partial(session_lib.Session.add_logs, rows=rows))
                shared.preempt(live)
                return True
        return False

    def _list_small(
        self, groups: list[policy.Group]
    ) -> Iterator[tuple[policy.Group, entries.LiveLaunch]]:
        """Yields trials that run with fewer slots than they want."""
        for group in groups:
            if group.least_size is not None and self._shared.is_active(group.experiment_id):
                launches = self._shared.launches_by_experiment.get(group.experiment_id, {})
                for live in list(launches.values()):
                    if live.num_counted and len(live.record.slots) < group.size:
                        yield group, live

    def _tell_lacks(self, groups: list[policy.Group], starts: Mapping[int, int]) -> None:
        """Says in the log of a trial that waits what it needs that no machine has any more."""
        shared = self._shared
        for group in groups:
            entry = shared.entries.get(group.experiment_id)
            if entry is None or not group.num_waiting or group.experiment_id in starts:
                continue
            lack = shared.nodes.find_lack(entry.config.resources)
            if lack and lack != entry.told_lack:
                logger.warning("Experiment %d waits. %s", entry.id, lack)
                text = f"The trial waits. {lack}"
                rows = [shared.log(trial_id, text) for trial_id in entry.next_waiting(1)]
                shared.write(functools.partial(session_lib.Session.add_logs, rows=rows))
            entry.told_lack = lack

    def _find_demand(self, groups: list[policy.Group]) -> demand.Demand:
        """Returns what the trials want that still wait."""
        shared, wanted = self._shared, []
        for group in sorted(groups, key=lambda group: (group.priority, group.experiment_id)):
            entry = shared.entries.get(group.experiment_id)
            if entry is None or not group.num_waiting or not group.size:
                continue
            count = entry.count_all_waiting(shared.launches_by_trial)
            if group.max_slots is not None:
                left = group.max_slots - shared.held[group.experiment_id]
                count = min(count, max(left, 0) // group.size)
            if count:
                size = entry.config.resources.num_processes
                wanted.append(demand.Wanted(entry.needs, group.size // size, size, count))
        for group, live in self._list_small(groups):
            missing = group.size - len(live.record.slots)
            wanted.append(demand.Wanted(shared.entry(group.experiment_id).needs, 1, missing, 1))
        own = {slot.id for slot in shared.nodes.nodes[node_lib.OWN].slots}
        return demand.Demand(tuple(wanted), len(shared.nodes.holders.keys() - own))

    def _take_back(self, experiment_id: int, num_slots: int) -> None:
        """Lets the youngest trials of an experiment save themselves and give back their slots."""
        for _, live in sorted(
            self._shared.launches_by_experiment[experiment_id].items(), reverse=True
        ):
            if num_slots <= 0:
                return
            if live.num_counted:
                num_slots -= live.num_counted
                self._shared.preempt(live)

    def _start_all(
        self, groups: list[policy.Group], decisions: policy.Decisions
    ) -> list[tuple[entries.LiveLaunch, _Launches]]:
        """Places trials, makes room for others, and fills what is idle meanwhile."""
        starts: list[tuple[entries.LiveLaunch, _Launches]] = []
        waiting: list[int] = []
        for experiment_id, count in decisions.start.items():
            size = decisions.sizes.get(experiment_id)
            found, blocked = self._start_some(experiment_id, count, size)
            starts += found
            waiting += blocked
        self._room.keep(waiting)
        idle = self._room.find_idle()
        for group in sorted(groups, key=lambda group: (group.priority, group.experiment_id)):
            if not idle:
                break
            idle, found = self._fill(group.experiment_id, idle)
            starts += found
        return starts

    def _start_some(
        self, experiment_id: int, count: int, num_slots: int | None
    ) -> tuple[list[tuple[entries.LiveLaunch, _Launches]], list[int]]:
        """Starts trials of an experiment; returns also those that wait for a place."""
        shared = self._shared
        starts: list[tuple[entries.LiveLaunch, _Launches]] = []
        blocked: list[int] = []
        with shared.failures_contained(experiment_id, "while its trials were started"):
            entry = shared.entry(experiment_id)
            entry.num_slots = num_slots
            is_plain = entry.resources.slots_per_trial <= 1 and entry.needs == pools.Needs()
            for trial_id in entry.next_waiting(count + _MOST_PASSED):
                if len(starts) + len(blocked) >= count or not shared.is_active(experiment_id):
                    break
                places = self._room.find(entry, trial_id)
                if places is not None:
                    starts.append(self._start(entry, trial_id, places))
                    continue
                if entry.machine_of(trial_id).excluded_slots:
                    continue  # Others of the experiment may do.
                if is_plain or len(blocked) >= _MOST_RESERVED or self._room.is_pausing():
                    break
                if not self._room.make(entry, trial_id):
                    break
                blocked.append(trial_id)
        return starts, blocked

    def _fill(
        self, experiment_id: int, idle: list[int]
    ) -> tuple[list[int], list[tuple[entries.LiveLaunch, _Launches]]]:
        """Starts trials on slots that wait for others; returns those that are left of these."""
        shared = self._shared
        starts: list[tuple[entries.LiveLaunch, _Launches]] = []
        with shared.failures_contained(experiment_id, "while its trials were started"):
            entry = shared.entry(experiment_id)
            for trial_id in entry.next_waiting(len(idle) + _MOST_PASSED):
                if trial_id in shared.launches_by_trial or not shared.is_active(experiment_id):
                    continue
                places = self._room.find_among(entry, trial_id, idle)
                if places is None:
                    break
                starts.append(self._start(entry, trial_id, places, is_backfill=True))
                idle = [slot for slot in idle if slot not in places[0].slots]
        return idle, starts

    def _start(
        self,
        entry: entries.Entry,
        trial_id: int,
        places: tuple[pools.Place, ...],
        *,
        is_backfill: bool = False,
    ) -> tuple[entries.LiveLaunch, _Launches]:
        live, launches = self._prepare(entry, trial_id, places)
        if is_backfill:
            self._room.note_backfill(live)
        self._shared.add_launch(live)
        return live, launches

    def _keep(self, started: list[entries.LiveLaunch]) -> None:
        def write(session: session_lib.Session) -> None:
            for live in started:
                session.save_launch(live.record)
                record = live.record
                wanted = self._shared.entries[record.experiment_id].config.resources.slots_per_trial
                if len(record.slots) < wanted:
                    text = f"The trial starts with {len(record.slots)} of {wanted} slots."
                    session.add_logs([self._shared.log(record.trial_id, text)])

        if not started:
            return
        try:
            self._shared.write(write)
        except errors.StoreError:
            for live in started:
                self._shared.drop_launch(live)
                self._shared.entries[live.record.experiment_id].enqueue(live.record.trial_id)
            raise

    def _build_groups(self, now: float) -> list[policy.Group]:
        """Returns the experiments with trials that hold slots or want them."""
        shared = self._shared
        groups: list[policy.Group] = []
        needs = {}
        for experiment_id in sorted(shared.entries):
            with shared.failures_contained(experiment_id, "while it was scheduled"):
                entry = shared.entry(experiment_id)
                needs[experiment_id] = entry.needs
                num_waiting = 0
                if entry.machine.state is states.ExperimentState.ACTIVE:
                    num_waiting = entry.count_waiting(shared.launches_by_trial, now)
                held = shared.held[experiment_id]
                if not num_waiting and not held:
                    continue
                resources = entry.config.resources
                groups.append(
                    policy.Group(
                        experiment_id,
                        num_waiting,
                        resources.slots_per_trial,
                        resources.min_slots_per_trial,
                        held,
                        min(held, resources.least.slots_per_trial),
                        # The shares of all are computed from it: an infinite one would leave none.
                        weight=min(resources.weight, _MOST_WEIGHT),
                        max_slots=resources.max_slots,
                        priority=resources.priority or policy.DEFAULT_PRIORITY,
                    )
                )
        kinds = {each for each in needs.values() if each != pools.Needs()}
        shared.nodes.use_pools({pools.Needs(), *kinds})
        if not kinds:
            return groups
        return [
            dataclasses.replace(
                group,
                pools=tuple(kind for kind in kinds if needs[group.experiment_id].is_within(kind)),
            )
            for group in groups
        ]

    def _prepare(
        self, entry: entries.Entry, trial_id: int, places: tuple[pools.Place, ...]
    ) -> tuple[entries.LiveLaunch, _Launches]:
        """Returns what the store is to keep of a start, and its processes."""
        shared = self._shared
        launch_id = f"t{trial_id}-{uuid.uuid4().hex[:12]}"
        record = launch_lib.Launch(
            launch_id,
            trial_id,
            entry.id,
            tuple(slot for place in places for slot in place.slots),
            launch_lib.LaunchState.LAUNCHING,
            None,
            time.time(),
            places[0].node,
            tuple(launch_lib.Member(place.node, place.slots) for place in places[1:]),
        )
        token = self._launch_key.build_token(trial_id, launch_id)
        launches = []
        for rank, place in enumerate(places):
            slots = tuple(shared.nodes.slots[slot] for slot in place.slots)
            has_gpu = any(slot.kind is slot_lib.SlotKind.GPU for slot in slots)
            environment = {
                **entry.config.environment.as_mapping(has_gpu=has_gpu),
                "QUINTAIN_MASTER": self._address,
                "QUINTAIN_MASTER_HOME": str(shared.home),
                "QUINTAIN_TOKEN": token,
                "QUINTAIN_TRIAL_ID": str(trial_id),
                "QUINTAIN_LAUNCH_ID": launch_id,
                "QUINTAIN_SLOTS": ",".join(map(str, place.slots)),
                "QUINTAIN_RANK": str(rank),
                "QUINTAIN_SIZE": str(len(places)),
            }
            launches.append(
                launcher_lib.LaunchRequest(
                    launch_id=launch_lib.member_name(launch_id, rank),
                    trial_id=trial_id,
                    experiment_id=entry.id,
                    slots=slots,
                    environment=environment,
                    scratch_dir=str(entries.scratch_dir(shared.home, record)),
                    model_dir=entry.record.model_dir,
                    node=place.node,
                    rank=rank,
                    size=len(places),
                )
            )
        live = entries.LiveLaunch(record, entry.request_ids[trial_id], time.monotonic())
        return live, launches

    def launch(self, launches: _Launches) -> None:
        """Starts processes. The lock is not held meanwhile; a worker may be faster than this."""
        shared = self._shared
        for launch in launches:
            try:
                identity = self._launcher.start(launch)
            except Exception as error:  # noqa: BLE001 - the border between experiments
                is_known = isinstance(error, errors.QuintainError)
                cause = str(error) if is_known else unexpected_errors.describe(error)
                with shared.condition:
                    live = shared.launches_by_trial[launch.trial_id]
                    for rank in range(launch.rank, launch.size):
                        self._note_lost(live, rank, f"The process could not be started: {cause}")
                return
            with shared.condition:
                self._note_started(shared.launches_by_trial[launch.trial_id], launch, identity)

    def _note_started(
        self,
        live: entries.LiveLaunch,
        launch: launcher_lib.LaunchRequest,
        identity: trial.ProcessIdentity | None,
    ) -> None:
        if identity is not None and live.record.members[launch.rank].identity is None:
            record = live.record.with_identity(launch.rank, identity)
            try:
                self._shared.write(lambda session: session.save_launch(record))
            except errors.StoreError:
                logger.warning("The process of trial %d is not noted.", launch.trial_id)
            live.record = record
        if live.is_killed:
            self._launcher.kill(launch.launch_id)
