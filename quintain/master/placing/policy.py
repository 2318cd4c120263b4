"""Scheduling policy: fair shares of slots by weight, within limits, by priority.

Experiments of the same priority share what is left by those that are more urgent. Each is offered
slots in proportion to its weight, never more than its trials can use; what one does not need goes
to the others. If an experiment was offered fewer than its smallest trial needs, the youngest such
experiment gets none, so that trials of several slots never block each other for ever. What is left
of an offer beside whole trials goes to others, too. Trials that do with fewer slots (elastic gangs)
start with a half, a quarter, ... where an offer is too small for whole ones.

Experiments count, not trials: the work does not grow with these.
"""

import dataclasses
from collections.abc import Hashable, Mapping, Sequence
from typing import Any, Final

DEFAULT_PRIORITY: Final = 42


@dataclasses.dataclass(frozen=True)
class Group:
    """One experiment."""

    experiment_id: int
    """The experiment; older ones have smaller numbers."""

    num_waiting: int = 0
    """Its trials that want slots."""

    size: int = 1
    """Slots that each of them needs."""

    least_size: int | None = None
    """Slots with which each of them does: `size`, halved some times. None if it needs all."""

    num_held: int = 0
    """Slots that its trials hold and keep."""

    smallest_held: int = 0
    """Slots of the smallest of these trials."""

    weight: float = 1.0
    """Its share, relative to others of the same priority."""

    max_slots: int | None = None
    """Most slots that it may hold, or None."""

    priority: int = DEFAULT_PRIORITY
    """Smaller numbers are served first."""

    pools: tuple[Hashable, ...] = ()
    """Parts of the slots that its trials are among: those that have what they need."""

    @property
    def demand(self) -> int:
        """Slots that it can use."""
        demand = self.num_held + self.num_waiting * self.size
        return demand if self.max_slots is None else min(demand, self.max_slots)

    @property
    def smallest(self) -> int:
        """Slots of its smallest trial, or 0 if none wants any."""
        sizes = [self.smallest_held] if self.smallest_held else []
        return min([*sizes, *([self.size] if self.num_waiting else [])], default=0)


@dataclasses.dataclass(frozen=True)
class Decisions:
    """Decisions of the policy. Trials are never started and preempted at once."""

    start: Mapping[int, int] = dataclasses.field(default_factory=dict)
    """How many trials of which experiments start, in this order."""

    preempt: Mapping[int, int] = dataclasses.field(default_factory=dict)
    """How many slots experiments are to give back."""

    sizes: Mapping[int, int] = dataclasses.field(default_factory=dict)
    """With how many slots the trials of experiments start that do with fewer."""


def assign(
    groups: Sequence[Group],
    num_slots: int,
    num_free: int | None = None,
    limits: Mapping[Any, int] | None = None,
) -> Decisions:
    """Decides which experiments start trials, or have to make room first.

    Args:
        groups: All experiments with trials that hold slots or want them.
        num_slots: Slots of all machines.
        num_free: Those that no trial holds; None if only trials that keep theirs hold any.
        limits: Slots of each pool.
    """
    limits = limits or {}
    groups = [_without_oversized(group, num_slots, limits) for group in groups]
    offers, groups = _find_offers(groups, num_slots, limits)
    preempt = {
        group.experiment_id: too_many
        for group in groups
        if (too_many := group.num_held - offers[group.experiment_id]) > 0
    }
    if preempt:
        return Decisions(preempt=preempt)
    if num_free is None:
        num_free = num_slots - sum(group.num_held for group in groups)
    start: dict[int, int] = {}
    for group in sorted(groups, key=lambda group: (group.priority, group.experiment_id)):
        count = group.num_waiting
        if group.size:
            room = min(offers[group.experiment_id] - group.num_held, num_free)
            count = min(count, max(room, 0) // group.size)
            num_free -= count * group.size
        if count:
            start[group.experiment_id] = count
    sizes = {
        group.experiment_id: group.size
        for group in groups
        if group.least_size and group.experiment_id in start
    }
    return Decisions(start=start, sizes=sizes)


def find_offers(
    groups: Sequence[Group], num_slots: int, limits: Mapping[Any, int] | None = None
) -> dict[int, int]:
    """Returns how many slots each experiment may hold."""
    return _find_offers(groups, num_slots, limits or {})[0]


def _find_offers(
    groups: Sequence[Group], num_slots: int, limits: Mapping[Any, int]
) -> tuple[dict[int, int], list[Group]]:
    """Returns how many slots each experiment may hold, and with how many its trials start."""
    offers = {group.experiment_id: 0 for group in groups}
    left = _Left(num_slots, dict(limits))
    for priority in sorted({group.priority for group in groups}):
        peers = [group for group in groups if group.priority == priority]
        shares = _share(peers, left)
        offers.update(shares)
        for group in peers:
            left.take(group, shares[group.experiment_id])
    return offers, [_fit(group, offers[group.experiment_id]) for group in groups]


@dataclasses.dataclass
class _Left:
    """Slots that were not offered yet, of all machines and of each pool."""

    num_slots: int
    limits: dict[Hashable, int]

    def most(self, group: Group) -> int:
        return min([self.num_slots, *(self.limits[pool] for pool in group.pools)])

    def find_share(self, group: Group, weights: Mapping[Hashable, float]) -> int:
        shares = [self.num_slots * group.weight / weights[None]]
        shares += [self.limits[pool] * group.weight / weights[pool] for pool in group.pools]
        return int(min(shares))

    def take(self, group: Group, count: int) -> None:
        self.num_slots -= count
        for pool in group.pools:
            self.limits[pool] -= count


def _weigh(groups: Sequence[Group]) -> dict[Hashable, float]:
    """Returns the weights of those that share each pool, and of all under None."""
    weights: dict[Hashable, float] = {None: 0.0}
    for group in groups:
        for pool in (None, *group.pools):
            weights[pool] = weights.get(pool, 0.0) + group.weight
    return weights


def _without_oversized(group: Group, num_slots: int, limits: Mapping[Hashable, int]) -> Group:
    """Leaves out trials that could never start; they must not hold back others."""
    most = [num_slots, *(limits[pool] for pool in group.pools)]
    if group.max_slots is not None:
        most.append(group.max_slots)
    least = group.least_size or group.size
    return group if least <= min(most) else dataclasses.replace(group, num_waiting=0)


def _share(groups: Sequence[Group], left: _Left) -> dict[int, int]:
    """Shares slots among experiments of the same priority.

    Halved trials must not keep an older experiment from whole ones: they wait, unless it gets none.
    """
    enabled = list(groups)
    gone: set[int] = set()
    paused: set[int] = set()
    caps = {group.experiment_id: group.demand for group in groups}
    while True:
        offers = _fill(enabled, left, caps)
        fitted = [_fit(group, offers[group.experiment_id]) for group in enabled]
        stuck = {
            group.experiment_id
            for group in fitted
            if (smallest := group.smallest) and offers[group.experiment_id] < smallest
        }
        if stuck:
            pairs = zip(enabled, fitted, strict=True)
            halved = {one.experiment_id for one, other in pairs if one.size != other.size}
            youngest = max(stuck | halved)
            if youngest in stuck:
                gone.add(youngest)
                paused.clear()
            else:
                paused.add(youngest)
            enabled = [each for each in groups if each.experiment_id not in gone | paused]
            caps = {group.experiment_id: group.demand for group in enabled}
            continue
        broken = {
            group.experiment_id: whole
            for group in fitted
            if (whole := _round(group, offers[group.experiment_id])) < caps[group.experiment_id]
            and whole < offers[group.experiment_id]
        }
        if not broken:
            return {group.experiment_id: offers.get(group.experiment_id, 0) for group in groups}
        caps.update(broken)


def _fit(group: Group, offer: int) -> Group:
    """Halves the trials that start until one fits into an offer, as far as they do with that."""
    size, room = group.size, offer - group.num_held
    while group.least_size and size > max(room, group.least_size):
        size //= 2
    return group if size > room or size == group.size else dataclasses.replace(group, size=size)


def _round(group: Group, offer: int) -> int:
    """Returns what whole trials can use of an offer."""
    room = offer - group.num_held
    if room < 0 or not group.size or not group.num_waiting:
        return offer
    return group.num_held + room // group.size * group.size


def _fill(groups: Sequence[Group], total: _Left, caps: Mapping[int, int]) -> dict[int, int]:
    """Offers slots round by round, in proportion to weights, up to what each can use."""
    offers = {group.experiment_id: 0 for group in groups}
    left = _Left(total.num_slots, dict(total.limits))
    hungry = sorted(
        (group for group in groups if caps[group.experiment_id]),
        key=lambda group: (caps[group.experiment_id], group.experiment_id),
    )
    while hungry and left.num_slots > 0:
        at_start = _Left(left.num_slots, dict(left.limits))
        weights = _weigh(hungry)
        for group in list(hungry):
            key = group.experiment_id
            fair = max(1, at_start.find_share(group, weights))
            given = min(fair, left.most(group), caps[key] - offers[key])
            offers[key] += given
            left.take(group, given)
            if offers[key] == caps[key] or not left.most(group):
                hungry.remove(group)
    return offers
