"""The part of the master that gives slots to trials and starts their processes."""

import logging
import time
import uuid
from collections.abc import Callable
from typing import Final

from quintain import errors
from quintain.records import run, states, trial
from quintain.records import slot as slot_lib
from quintain.scheduler import core as core_lib
from quintain.scheduler import entries, faults, launch_tokens, policy, pools, worker_calls
from quintain.scheduler import launcher as launcher_lib
from quintain.store import session as session_lib

logger = logging.getLogger(__name__)

_MOST_WEIGHT: Final = 1e100

_Launches = list[launcher_lib.Launch]


class Starting:
    """Chooses who gets slots, and starts processes. It is used by one thread only."""

    def __init__(
        self,
        core: core_lib.Core,
        workers: worker_calls.WorkerCalls,
        launcher: launcher_lib.Launcher,
        *,
        address: str,
        launch_key: launch_tokens.LaunchKey,
        note_lost: Callable[[entries.LiveRun, int, str], None],
    ) -> None:
        """Stores what processes are given: where the master is, and each a token of its own.

        Args:
            core: The master's state.
            workers: Is told whether trials wait for slots.
            launcher: Starts processes.
            address: Where workers reach the master.
            launch_key: Makes what they authenticate with.
            note_lost: Is told of processes that could not be started: the start, the rank, why.
        """
        self._core = core
        self._workers = workers
        self._launcher = launcher
        self._address = address
        self._launch_key = launch_key
        self._note_lost = note_lost

    def choose(self) -> list[_Launches]:
        """Returns the starts that there is room for, each with all of its processes."""
        core = self._core
        groups, wanted = self._build_groups(time.monotonic())
        decisions = policy.assign(groups, core.nodes.get_pool(pools.Needs()).num_slots)
        for trial_id in decisions.preempt:
            core.runs[trial_id].is_preempted = True
        self._workers.is_crowded = len(decisions.start) < sum(
            not request.is_running for group in groups for request in group.requests
        )
        if self._workers.is_crowded or decisions.preempt:
            core.condition.notify_all()
        chosen: list[tuple[entries.LiveRun, _Launches]] = []
        for trial_id in decisions.start:
            entry = wanted[trial_id]
            if not core.is_active(entry.id):
                continue
            resources = entry.config.resources
            excluded = entry.machine_of(trial_id).excluded_slots
            places = core.nodes.get_pool(entry.needs).find(
                resources.slots_per_trial, resources.num_processes, excluded
            )
            if places is None:
                continue
            with core.containing(entry.id, f"while trial {trial_id} was started"):
                live, launches = self._prepare(entry, trial_id, places)
                core.add_run(live)
                chosen.append((live, launches))
        self._keep([live for live, _ in chosen])
        return [launches for _, launches in chosen]

    def _keep(self, started: list[entries.LiveRun]) -> None:
        def write(session: session_lib.Session) -> None:
            for live in started:
                session.save_run(live.record)

        if not started:
            return
        try:
            self._core.write(write)
        except errors.StoreError:
            for live in started:
                self._core.drop_run(live)
            raise

    def _build_groups(self, now: float) -> tuple[list[policy.Group], dict[int, entries.Entry]]:
        core = self._core
        num_slots = core.nodes.get_pool(pools.Needs()).num_slots
        groups: list[policy.Group] = []
        wanted: dict[int, entries.Entry] = {}
        held: dict[int, list[policy.Request]] = {}
        for trial_id, live in core.runs.items():
            is_ending = live.is_preempted or live.record.state is run.RunState.ENDING
            usable = sum(
                len(member.slots)
                for member in live.record.members
                if core.nodes.is_active(member.node)
            )
            request = policy.Request(trial_id, usable, True, is_ending)
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
                    most = num_slots + 1 - len(holding)
                    for trial_id in entry.next_waiting(most, core.runs, now):
                        wanted[trial_id] = entry
                        requests.append(policy.Request(trial_id, count))
                if requests:
                    groups.append(_build_group(entry, requests))
        return groups, wanted

    def _prepare(
        self, entry: entries.Entry, trial_id: int, places: tuple[pools.Place, ...]
    ) -> tuple[entries.LiveRun, _Launches]:
        """Returns what the store is to keep of a start, and its processes."""
        core = self._core
        launch_id = f"t{trial_id}-{uuid.uuid4().hex[:12]}"
        record = run.Run(
            launch_id,
            trial_id,
            entry.id,
            tuple(slot for place in places for slot in place.slots),
            run.RunState.LAUNCHING,
            None,
            time.time(),
            places[0].node,
            tuple(run.Member(place.node, place.slots) for place in places[1:]),
        )
        token = self._launch_key.build_token(trial_id, launch_id)
        launches = []
        for rank, place in enumerate(places):
            slots = tuple(core.nodes.slots[slot] for slot in place.slots)
            has_gpu = any(slot.kind is slot_lib.SlotKind.GPU for slot in slots)
            environment = {
                **entry.config.environment.as_mapping(has_gpu=has_gpu),
                "QUINTAIN_MASTER": self._address,
                "QUINTAIN_MASTER_HOME": str(core.home),
                "QUINTAIN_TOKEN": token,
                "QUINTAIN_TRIAL_ID": str(trial_id),
                "QUINTAIN_LAUNCH_ID": launch_id,
                "QUINTAIN_SLOTS": ",".join(map(str, place.slots)),
                "QUINTAIN_RANK": str(rank),
                "QUINTAIN_SIZE": str(len(places)),
            }
            launches.append(
                launcher_lib.Launch(
                    launch_id=run.member_name(launch_id, rank),
                    trial_id=trial_id,
                    experiment_id=entry.id,
                    slots=slots,
                    environment=environment,
                    scratch_dir=str(entries.scratch_dir(core.home, record)),
                    model_dir=entry.record.model_dir,
                    node=place.node,
                    rank=rank,
                    size=len(places),
                )
            )
        live = entries.LiveRun(record, entry.request_ids[trial_id], time.monotonic())
        return live, launches

    def launch(self, launches: _Launches) -> None:
        """Starts processes. The lock is not held meanwhile; a worker may be faster than this."""
        core = self._core
        for launch in launches:
            try:
                identity = self._launcher.start(launch)
            except Exception as error:  # noqa: BLE001 - the border between experiments
                is_known = isinstance(error, errors.QuintainError)
                cause = str(error) if is_known else faults.describe(error)
                with core.condition:
                    live = core.runs[launch.trial_id]
                    for rank in range(launch.rank, launch.size):
                        self._note_lost(live, rank, f"The process could not be started: {cause}")
                return
            with core.condition:
                self._note_started(core.runs[launch.trial_id], launch, identity)

    def _note_started(
        self,
        live: entries.LiveRun,
        launch: launcher_lib.Launch,
        identity: trial.ProcessIdentity | None,
    ) -> None:
        if identity is not None and live.record.members[launch.rank].identity is None:
            record = live.record.with_identity(launch.rank, identity)
            try:
                self._core.write(lambda session: session.save_run(record))
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
