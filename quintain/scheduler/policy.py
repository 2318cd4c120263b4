"""Who gets slots: fair shares by weight, within limits, and more urgent experiments first.

Experiments of the same priority share what is left by those that are more urgent. Each is offered
slots in proportion to its weight, never more than its trials can use; what one does not need goes
to the others. If no slots are left and an experiment was offered fewer than its smallest trial
needs, the youngest such experiment gets none, so that trials of several slots never block each
other for ever.
"""

import dataclasses
from collections.abc import Sequence
from typing import Final

DEFAULT_PRIORITY: Final = 42


@dataclasses.dataclass(frozen=True)
class Request:
    """One trial that holds slots or wants them."""

    trial_id: int
    """The trial; older ones have smaller numbers."""

    num_slots: int
    """Slots that it needs."""

    is_running: bool = False
    """Whether it holds its slots."""

    is_ending: bool = False
    """Whether it was told to give them back."""


@dataclasses.dataclass(frozen=True)
class Group:
    """One experiment."""

    experiment_id: int
    """The experiment; older ones have smaller numbers."""

    requests: Sequence[Request]
    """Its trials that hold slots or want them, in the order in which they are to start."""

    weight: float = 1.0
    """Its share, relative to others of the same priority."""

    max_slots: int | None = None
    """Most slots that it may hold, or None."""

    priority: int = DEFAULT_PRIORITY
    """Smaller numbers are served first."""


@dataclasses.dataclass(frozen=True)
class Decisions:
    """What is to be done. Trials are never started and preempted at once."""

    start: tuple[int, ...] = ()
    """Trials to start, in order."""

    preempt: tuple[int, ...] = ()
    """Trials that are to give back their slots."""


def assign(groups: Sequence[Group], num_slots: int) -> Decisions:
    """Decides which trials start, or which have to make room first.

    Args:
        groups: All experiments with trials that hold slots or want them.
        num_slots: Slots of the machine.
    """
    groups = [_without_oversized(group, num_slots) for group in groups]
    offers = find_offers(groups, num_slots)
    preempt = [
        trial_id for group in groups for trial_id in _preempt(group, offers[group.experiment_id])
    ]
    if preempt:
        return Decisions(preempt=tuple(preempt))
    held = sum(each.num_slots for group in groups for each in group.requests if each.is_running)
    free = num_slots - held
    start: list[int] = []
    for group in sorted(groups, key=lambda group: (group.priority, group.experiment_id)):
        room = offers[group.experiment_id] - _count_held(group)
        for request in group.requests:
            if request.is_running or request.num_slots > min(room, free):
                continue
            start.append(request.trial_id)
            room -= request.num_slots
            free -= request.num_slots
    return Decisions(start=tuple(start))


def find_offers(groups: Sequence[Group], num_slots: int) -> dict[int, int]:
    """Returns how many slots each experiment may hold."""
    offers = {group.experiment_id: 0 for group in groups}
    capacity = num_slots
    for priority in sorted({group.priority for group in groups}):
        peers = [group for group in groups if group.priority == priority]
        shares = _share(peers, capacity)
        offers.update(shares)
        capacity -= sum(shares.values())
    return offers


def _without_oversized(group: Group, num_slots: int) -> Group:
    """Leaves out trials that could never start; they must not hold back others."""
    limit = num_slots if group.max_slots is None else min(group.max_slots, num_slots)
    requests = [each for each in group.requests if each.is_running or each.num_slots <= limit]
    return dataclasses.replace(group, requests=requests)


def _share(groups: Sequence[Group], capacity: int) -> dict[int, int]:
    """Shares slots among experiments of the same priority."""
    enabled = list(groups)
    while True:
        offers = _fill(enabled, capacity)
        if sum(offers.values()) < capacity:
            break
        stuck = [
            group
            for group in enabled
            if (smallest := _find_smallest(group)) and offers[group.experiment_id] < smallest
        ]
        if not stuck:
            break
        enabled.remove(max(stuck, key=lambda group: group.experiment_id))
    return {group.experiment_id: offers.get(group.experiment_id, 0) for group in groups}


def _fill(groups: Sequence[Group], capacity: int) -> dict[int, int]:
    """Offers slots round by round, in proportion to weights, up to what each can use."""
    offers = {group.experiment_id: 0 for group in groups}
    demands = {group.experiment_id: _count_demand(group) for group in groups}
    hungry = sorted(
        (group for group in groups if demands[group.experiment_id]),
        key=lambda group: (demands[group.experiment_id], group.experiment_id),
    )
    while hungry and capacity > 0:
        at_start, weights = capacity, sum(group.weight for group in hungry)
        for group in list(hungry):
            key = group.experiment_id
            fair = max(1, int(at_start * group.weight / weights))
            given = min(fair, capacity, demands[key] - offers[key])
            offers[key] += given
            capacity -= given
            if offers[key] == demands[key]:
                hungry.remove(group)
    return offers


def _count_demand(group: Group) -> int:
    demand = sum(each.num_slots for each in group.requests if not each.is_ending)
    return demand if group.max_slots is None else min(demand, group.max_slots)


def _count_held(group: Group) -> int:
    return sum(each.num_slots for each in group.requests if each.is_running and not each.is_ending)


def _find_smallest(group: Group) -> int:
    """Returns the slots of the smallest trial, or 0 if none wants any."""
    sizes = [each.num_slots for each in group.requests if each.num_slots and not each.is_ending]
    return min(sizes, default=0)


def _preempt(group: Group, offer: int) -> list[int]:
    """Returns the youngest trials that have to end for the experiment to keep to its offer."""
    held = _count_held(group)
    chosen: list[int] = []
    running = [each for each in group.requests if each.is_running and not each.is_ending]
    for request in sorted(running, key=lambda each: -each.trial_id):
        if held <= offer:
            break
        if request.num_slots:
            chosen.append(request.trial_id)
            held -= request.num_slots
    return chosen
