"""Pools of slots, one for each kind of requirement.

A pool is kept for each kind of need that trials have. Giving and taking a slot costs a few steps
in each pool; finding a place costs no more where thousands of machines are there.
"""

import bisect
import dataclasses
from collections.abc import Collection, Iterable, Iterator, Mapping

from quintain.records.rows import node as node_lib
from quintain.records.rows import slot as slot_lib


@dataclasses.dataclass(frozen=True)
class Needs:
    """Requirements of a trial on machines and slots."""

    labels: tuple[tuple[str, str], ...] = ()
    """Labels of the machine."""

    gpu: bool | str | None = None
    """Whether slots are GPUs, or the kind of GPU that the machine's label `gpu` names; None for
    any slots."""

    def is_within(self, other: "Needs") -> bool:
        """Returns whether all slots that fit this need fit another one, too."""
        has_gpu = (
            other.gpu is None
            or other.gpu == self.gpu
            or (other.gpu is True and isinstance(self.gpu, str))
        )
        return has_gpu and set(other.labels) <= set(self.labels)

    def admits_node(self, labels: Mapping[str, str]) -> bool:
        """Returns whether a machine with such labels has what is needed."""
        if isinstance(self.gpu, str) and labels.get("gpu", "").lower() != self.gpu.lower():
            return False
        return all(labels.get(name) == value for name, value in self.labels)

    def admits_slot(self, slot: slot_lib.Slot) -> bool:
        """Returns whether a slot of such a machine is what is needed."""
        return self.gpu is None or bool(self.gpu) == (slot.kind is slot_lib.SlotKind.GPU)


@dataclasses.dataclass(frozen=True)
class Place:
    """Place of a process: its machine and slots."""

    node: str
    """The machine."""

    slots: tuple[int, ...]
    """Its slots."""


class Pool:
    """The slots that fit one kind of need.

    Attributes:
        slots: Slots of each machine, held or free.
        num_slots: All of them.
        num_free: Those that nobody holds.
    """

    def __init__(self, needs: Needs) -> None:
        self._needs = needs
        self.slots: dict[str, tuple[int, ...]] = {}
        self._members: set[int] = set()
        self.num_slots = 0
        self.num_free = 0
        self._free: dict[str, list[int]] = {}
        self._free_ids: set[int] = set()
        # Machines by the number of their free slots, so that one that just suffices is found first.
        self._buckets: dict[int, dict[str, None]] = {}

    def add_node(
        self, name: str, labels: Mapping[str, str], slots: Iterable[slot_lib.Slot], free: set[int]
    ) -> None:
        """Takes a machine in, if it has what is needed."""
        if not self._needs.admits_node(labels):
            return
        fitting = [slot.id for slot in slots if self._needs.admits_slot(slot)]
        self.slots[name] = tuple(fitting)
        self._members.update(fitting)
        self.num_slots += len(fitting)
        self._put(name, sorted(free.intersection(fitting)))

    def remove_node(self, name: str) -> None:
        """Leaves a machine out."""
        if name in self.slots:
            fitting = self.slots.pop(name)
            self._members.difference_update(fitting)
            self.num_slots -= len(fitting)
            self._put(name, [])
            del self._free[name]
            self._buckets[0].pop(name)

    def take(self, name: str, slot_id: int) -> None:
        """Notes that a slot is held."""
        free = self._free.get(name, [])
        index = bisect.bisect_left(free, slot_id)
        if index < len(free) and free[index] == slot_id:
            self._put(name, free[:index] + free[index + 1 :])

    def give(self, slot: slot_lib.Slot) -> None:
        """Notes that a slot is free."""
        free = self._free.get(slot.node)
        if free is not None and self._needs.admits_slot(slot) and slot.id not in free:
            self._put(slot.node, sorted([*free, slot.id]))

    def _put(self, name: str, free: list[int]) -> None:
        former = self._free.get(name)
        if former is not None:
            self._buckets[len(former)].pop(name)
            self.num_free -= len(former)
            self._free_ids.difference_update(former)
        self._free_ids.update(free)
        self._free[name] = free
        self._buckets.setdefault(len(free), {})[name] = None
        self.num_free += len(free)

    def can_ever_hold(self, num_slots: int, num_processes: int) -> bool:
        """Returns whether a trial would find a place if nothing else ran."""
        if num_processes > 1:
            each = num_slots // num_processes
            if not each:
                return bool(self.slots)
            if each == 1:
                return self.num_slots >= num_processes
            return sum(len(own) // each for own in self.slots.values()) >= num_processes
        return any(len(own) >= num_slots for own in self.slots.values())

    def find(
        self, num_slots: int, num_processes: int = 1, excluded: Collection[int] = ()
    ) -> tuple[Place, ...] | None:
        """Returns where the processes of a trial can go now, or None if they can't.

        The slots of one process are on one machine; that with the fewest free slots that suffice.
        Several processes go to as few machines as possible.

        Args:
            num_slots: Slots of the trial.
            num_processes: Its processes, which share the slots evenly.
            excluded: Slots that it must not have.
        """
        if not num_slots and node_lib.OWN in self.slots:
            return (Place(node_lib.OWN, ()),) * num_processes
        for name, free in self._list_sufficient(num_slots, excluded):
            return _divide(name, free[:num_slots], num_processes)
        if num_processes == 1:
            return None
        each = num_slots // num_processes
        places: list[Place] = []
        for name, free in self._list_largest(excluded):
            if len(free) < each:
                break
            count = min(len(free) // each, num_processes - len(places))
            places += _divide(name, free[: count * each], count)
            if len(places) == num_processes:
                return tuple(places)
        return None

    def __contains__(self, slot_id: int) -> bool:
        """Returns whether a slot is one of them."""
        return slot_id in self._members

    def count_free(self, excluded: Collection[int]) -> int:
        """Returns how many slots are free beside some that are not wanted."""
        return self.num_free - len(self._free_ids.intersection(excluded))

    def _list_sufficient(
        self, num_slots: int, excluded: Collection[int]
    ) -> Iterator[tuple[str, list[int]]]:
        for count in sorted(self._buckets):
            if count < num_slots:
                continue
            for name in self._buckets[count]:
                free = self._usable(name, excluded)
                if len(free) >= num_slots:
                    yield name, free

    def _list_largest(self, excluded: Collection[int]) -> Iterator[tuple[str, list[int]]]:
        if not excluded:
            for count in sorted(self._buckets, reverse=True):
                for name in self._buckets[count]:
                    yield name, self._free[name]
            return
        usable = [(name, self._usable(name, excluded)) for name in self._free]
        yield from sorted(usable, key=lambda each: -len(each[1]))

    def _usable(self, name: str, excluded: Collection[int]) -> list[int]:
        free = self._free[name]
        return [each for each in free if each not in excluded] if excluded else free


def _divide(name: str, slots: list[int], num_processes: int) -> tuple[Place, ...]:
    each = len(slots) // num_processes
    return tuple(
        Place(name, tuple(slots[rank * each : (rank + 1) * each])) for rank in range(num_processes)
    )


def describe(needs: Needs) -> str:
    """Returns what is needed, in words; empty if any slots do."""
    parts = [f"{name}={value}" for name, value in needs.labels]
    words = [f"the labels {', '.join(parts)}"] if parts else []
    if isinstance(needs.gpu, str):
        words.append(f"GPUs of the kind {needs.gpu!r} (label gpu)")
    elif needs.gpu is not None:
        words.append("GPUs" if needs.gpu else "slots of the CPU")
    return " and ".join(words)
