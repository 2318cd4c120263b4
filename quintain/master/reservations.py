"""Reservations of slots for trials that may start but find no place.

The policy sees to it that there are slots enough for all that it lets start; but these may be
scattered over machines where a trial needs several of one, or be held by trials that would do with
others. Then a place is reserved: that which costs the fewest trials a move. They save themselves,
and start again where slots are free; only trials that find such slots are asked to. Whoever waits
holds no slot meanwhile, so that no two wait for each other.

While a reserved place is not complete, because a trial that gives way is in the middle of a long
workload, its free slots are idle. After a while they are filled with trials beyond the share of
their experiments, which give way as soon as the rest is free.
"""

import dataclasses
import time
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Final

from quintain.master import entries, shared_state, throttle
from quintain.master.placing import pools

BACKFILL_SECS: Final = 30.0
"""How long a trial waits before others use the slots that are reserved for it."""


@dataclasses.dataclass
class _Reservation:
    """Slots that are kept for a trial."""

    slots: frozenset[int]
    since: float


class Reservations:
    """Finds places for trials. The master's lock is held by whoever calls."""

    def __init__(
        self, shared: shared_state.SharedState, *, backfill_secs: float = BACKFILL_SECS
    ) -> None:
        """Starts without reservations.

        Args:
            shared: The master's state.
            backfill_secs: How long a trial waits before others use what is reserved for it.
        """
        self._shared = shared
        self._backfill_secs = backfill_secs
        self._reservations: dict[int, _Reservation] = {}
        self._backfill: set[int] = set()
        self._making = throttle.Throttle()

    def find(self, entry: entries.Entry, trial_id: int) -> tuple[pools.Place, ...] | None:
        """Returns where a trial can go now, or None if it can't."""
        resources = entry.resources
        pool = self._shared.nodes.get_pool(entry.needs)
        excluded = self._find_excluded(entry, trial_id)
        return pool.find(resources.slots_per_trial, resources.num_processes, excluded)

    def _find_excluded(self, entry: entries.Entry, trial_id: int) -> frozenset[int]:
        excluded = frozenset(entry.machine_of(trial_id).excluded_slots)
        others = [each.slots for key, each in self._reservations.items() if key != trial_id]
        return excluded.union(*others)

    def keep(self, waiting: Iterable[int]) -> None:
        """Drops the reservations of trials that do not wait any more."""
        waiting = set(waiting)
        for trial_id in [each for each in self._reservations if each not in waiting]:
            del self._reservations[trial_id]
        reserved = self._reserved()
        for trial_id in list(self._backfill):
            live = self._shared.launches_by_trial.get(trial_id)
            if live is None or not live.is_backfill:
                self._backfill.discard(trial_id)
            elif reserved.isdisjoint(live.record.slots):
                live.is_backfill = False
                self._backfill.discard(trial_id)
                self._shared.recount(live)

    def _reserved(self) -> set[int]:
        return {slot for each in self._reservations.values() for slot in each.slots}

    def is_pausing(self) -> bool:
        """Returns whether no room is made now: for many machines that takes a while."""
        return not self._making.is_due(len(self._shared.nodes.slots))

    def is_making(self) -> bool:
        """Returns whether trials wait for places, or could not be looked at yet."""
        return bool(self._reservations) or self.is_pausing()

    def make(self, entry: entries.Entry, trial_id: int) -> bool:
        """Reserves a place for a trial that finds none; returns whether there will be one."""
        former = self._reservations.pop(trial_id, None)
        with self._making.duration_measured():
            found = self._choose(entry, trial_id)
        if found is None:
            return False
        slots, moving = found
        since = time.monotonic() if former is None else former.since
        self._reservations[trial_id] = _Reservation(slots, since)
        for live in moving:
            self._shared.preempt(live)
        return True

    def _choose(
        self, entry: entries.Entry, trial_id: int
    ) -> tuple[frozenset[int], list[entries.LiveLaunch]] | None:
        """Returns the slots to reserve, and the trials that have to give way."""
        resources = entry.resources
        pool = self._shared.nodes.get_pool(entry.needs)
        excluded = self._find_excluded(entry, trial_id)
        best: tuple[int, list[int], list[entries.LiveLaunch]] | None = None
        for candidates in _list_candidates(pool, resources.num_processes):
            usable = [slot for slot in candidates if slot not in excluded]
            if len(usable) < resources.slots_per_trial:
                continue
            found = self._judge(usable, resources.slots_per_trial, excluded)
            if found is not None and (best is None or found[0] < best[0]):
                best = found
                if not found[0]:
                    break
        return None if best is None else (frozenset(best[1]), best[2])

    def _judge(
        self, usable: Sequence[int], count: int, excluded: Collection[int]
    ) -> tuple[int, list[int], list[entries.LiveLaunch]] | None:
        """Returns the slots that would be held of trials that move, what to reserve, and them."""
        shared = self._shared
        ranked: list[tuple[int, int, int]] = []
        for slot in usable:
            holder = shared.launches_by_trial.get(shared.nodes.holders.get(slot, 0))
            if holder is None:
                ranked.append((0, 0, slot))
            elif holder.is_giving_back:
                ranked.append((1, 0, slot))
            elif holder.is_backfill:
                ranked.append((2, holder.record.trial_id, slot))
            else:
                ranked.append((3, holder.record.trial_id, slot))
        chosen = sorted(ranked)[:count]
        slots = [slot for _, _, slot in chosen]
        pending = any(rank in (1, 3) for rank, _, _ in chosen)
        moving = [
            shared.launches_by_trial[trial]
            for trial in {trial for rank, trial, _ in chosen if rank == 3}
        ]
        if not self._can_move(moving, {*slots, *excluded}):
            return None
        if not pending:
            # All that is missing is used by those that only fill it.
            fillers = {trial for rank, trial, _ in chosen if rank == 2}
            return 0, slots, [shared.launches_by_trial[trial] for trial in fillers]
        return sum(len(live.record.slots) for live in moving), slots, moving

    def _can_move(self, moving: Sequence[entries.LiveLaunch], taken: Collection[int]) -> bool:
        """Returns whether trials find free slots elsewhere, so that no trial stops for another."""
        wanted: dict[pools.Needs, int] = {}
        for live in moving:
            entry = self._shared.entries.get(live.record.experiment_id)
            if entry is None:
                return False
            pool = self._shared.nodes.get_pool(entry.needs)
            num_slots = len(live.record.slots)
            if pool.find(num_slots, len(live.record.members), taken) is None:
                return False
            wanted[entry.needs] = wanted.get(entry.needs, 0) + num_slots
        return all(
            self._shared.nodes.get_pool(needs).count_free(taken) >= count
            for needs, count in wanted.items()
        )

    # Backfill.

    def count_due(self) -> int:
        """Returns how many reservations are so old that others may use their slots."""
        now = time.monotonic()
        return sum(now - each.since >= self._backfill_secs for each in self._reservations.values())

    def find_idle(self) -> list[int]:
        """Returns slots that others may use until the place that they are reserved for is free."""
        shared, now = self._shared, time.monotonic()
        idle: list[int] = []
        for each in self._reservations.values():
            if now - each.since < self._backfill_secs:
                continue
            held = [slot for slot in each.slots if slot in shared.nodes.holders]
            holders = {shared.nodes.holders[slot] for slot in held}
            if any(
                not shared.launches_by_trial[holder].is_backfill
                for holder in holders
                if holder in shared.launches_by_trial
            ):
                idle += [slot for slot in each.slots if slot not in shared.nodes.holders]
        return sorted(idle)

    def find_among(
        self, entry: entries.Entry, trial_id: int, idle: Sequence[int]
    ) -> tuple[pools.Place, ...] | None:
        """Returns where a trial of one process fits into idle slots."""
        resources = entry.resources
        if resources.num_processes > 1 or not resources.slots_per_trial:
            return None
        excluded = entry.machine_of(trial_id).excluded_slots
        pool = self._shared.nodes.get_pool(entry.needs)
        by_node: dict[str, list[int]] = {}
        for slot in idle:
            if slot not in excluded and slot in pool:
                by_node.setdefault(self._shared.nodes.slots[slot].node, []).append(slot)
        for name, slots in by_node.items():
            if len(slots) >= resources.slots_per_trial:
                return (pools.Place(name, tuple(slots[: resources.slots_per_trial])),)
        return None

    def note_backfill(self, live: entries.LiveLaunch) -> None:
        """Notes a process that uses idle slots; it is to be noted before its slots are counted."""
        live.is_backfill = True
        self._backfill.add(live.record.trial_id)


def _list_candidates(pool: pools.Pool, num_processes: int) -> Iterator[Sequence[int]]:
    """Returns slots of which all that a trial needs have to come: those of one machine, or all."""
    if num_processes == 1:
        yield from pool.slots.values()
    else:
        yield [slot for slots in pool.slots.values() for slot in slots]
