"""Node table: the machines, their slots by number, and the holders of slots.

The master's own slots have the lowest numbers. Each slot of another machine gets the next number
when the machine calls for the first time, and keeps it for ever: after a master's restart the
processes of a machine that has not called yet still hold the same slots.
"""

import dataclasses
import logging
import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from quintain.master.placing import pools, unmet_needs
from quintain.records.config import experiment_sections
from quintain.records.rows import node as node_lib
from quintain.records.rows import slot as slot_lib

logger = logging.getLogger(__name__)

CALL_SECS: Final = 60.0
"""In so much time after a master's start its machines have called."""

_DRAINED: Final = "A user drains it."
_SILENT: Final = "It has not called since the master was started."


class NodeTable:
    """The machines and their slots. The master's lock is held by whoever calls.

    Attributes:
        nodes: Machines that are there or whose processes hold slots, by name; their slots have the
            master's numbers.
        slots: Their slots, by number.
        holders: Trials by the slots that they hold.
        trials: Trials that have processes on a machine, by its name.
        lost: Machines of which nothing is heard, and whose slots take no trials.
        most_slots: Up to how many slots machines are added for trials that wait; None if never.
        changed: Machines that have changed since this was cleared.
        unsaved: What is to be kept of machines, since this was cleared.
    """

    def __init__(self, own_slots: Sequence[slot_lib.Slot]) -> None:
        self._own = tuple(own_slots)
        self.nodes: dict[str, node_lib.Node] = {}
        self.slots: dict[int, slot_lib.Slot] = {}
        self._numbers: list[int] = []
        self.holders: dict[int, int] = {}
        self.trials: dict[str, set[int]] = {}
        self.lost: dict[str, node_lib.Node] = {}
        self._known: dict[str, node_lib.KnownNode] = {}
        self._listed: dict[str, node_lib.Node] = {}
        self._pools: dict[pools.Needs, pools.Pool] = {}
        self._next_number = 0
        self.most_slots: int | None = None
        self.changed: set[str] = set()
        self.unsaved: dict[str, node_lib.KnownNode] = {}
        self.restore(())

    # What is there.

    def restore(self, known: Iterable[node_lib.KnownNode]) -> None:
        """Takes up the numbers that a former master gave."""
        self._known = {each.name: each for each in known}
        taken = {slot.id for each in self._known.values() for slot in each.slots}
        self._restored_at = time.monotonic() if taken else -CALL_SECS
        numbers = [each for each in range(len(taken) + len(self._own)) if each not in taken]
        own = tuple(
            dataclasses.replace(slot, id=number)
            for slot, number in zip(self._own, numbers, strict=False)
        )
        self._next_number = max([*taken, *(slot.id for slot in own)], default=-1) + 1
        self._place(self._judge(node_lib.Node(node_lib.OWN, own)))

    def refresh(self, listed: Sequence[node_lib.Node]) -> None:
        """Lets machines, beside the master's own, join, change and leave."""
        if listed == list(self._listed.values()):
            return
        former, self._listed = self._listed, {each.name: each for each in listed}
        for each in listed:
            last = former.pop(each.name, None)
            if last is not each and last != each:
                known = self._number(each)
                if known != self._known.get(each.name):
                    self._known[each.name] = self.unsaved[each.name] = known
                slots = known.slots[: len(each.slots)]
                self._place(self._judge(dataclasses.replace(each, slots=slots)))
        for name in former:
            self._remove(name)

    def set_drained(self, name: str, *, is_drained: bool) -> node_lib.KnownNode:
        """Empties a machine that has called before, or uses it again; returns what to keep."""
        # The numbers of the master's own slots are not kept: they are the lowest ones anyway.
        known = self._known.get(name) or node_lib.KnownNode(name)
        known = dataclasses.replace(known, is_drained=is_drained)
        self._known[name] = known
        if name == node_lib.OWN:
            self._place(self._judge(node_lib.Node(name, self.nodes[name].slots)))
        if (listed := self._listed.get(name)) is not None:
            slots = known.slots[: len(listed.slots)]
            self._place(self._judge(dataclasses.replace(listed, slots=slots)))
        return known

    def _number(self, node: node_lib.Node) -> node_lib.KnownNode:
        """Returns what is known of a machine now; its new slots get the next numbers."""
        former = self._known.get(node.name, node_lib.KnownNode(node.name))
        numbers = [slot.id for slot in former.slots]
        while len(numbers) < len(node.slots):
            numbers.append(self._next_number)
            self._next_number += 1
        slots = tuple(
            dataclasses.replace(slot, id=number, node=node.name)
            for slot, number in zip(node.slots, numbers, strict=False)
        )
        # Those that it does not have now keep their numbers, in case that it has them again.
        slots += former.slots[len(slots) :]
        return dataclasses.replace(former, slots=slots, labels=dict(node.labels))

    def _judge(self, node: node_lib.Node) -> node_lib.Node:
        known = self._known.get(node.name)
        if known is None or not known.is_drained or node.state is not node_lib.NodeState.ACTIVE:
            return node
        return dataclasses.replace(node, state=node_lib.NodeState.DRAINING, reason=_DRAINED)

    def _place(self, node: node_lib.Node) -> None:
        """Puts a machine, as it is now, in the place of what it was."""
        former = self.nodes.get(node.name)
        if former is not None:
            self._unplace(former)
        elif node.name:
            logger.info("Machine %s joins with %d slots.", node.name, len(node.slots))
        if former is not None and former.state is not node.state:
            logger.info("Machine %s is %s. %s", node.name, node.state.value, node.reason)
        self.changed.add(node.name)
        self.nodes[node.name] = node
        if node.state is node_lib.NodeState.LOST:
            self.lost[node.name] = node
        self.slots.update({slot.id: slot for slot in node.slots})
        self._numbers = []
        for pool in self._pools.values():
            self._add_to(pool, node)

    def _unplace(self, node: node_lib.Node) -> None:
        self.changed.add(node.name)
        del self.nodes[node.name]
        self.lost.pop(node.name, None)
        for slot in node.slots:
            del self.slots[slot.id]
        self._numbers = []
        for pool in self._pools.values():
            pool.remove_node(node.name)

    def _remove(self, name: str) -> None:
        """Lets a machine go; it is still seen as long as processes hold slots of it."""
        node = self.nodes[name]
        if self.trials.get(name):
            reason = "It is not there any more."
            self._place(dataclasses.replace(node, state=node_lib.NodeState.LOST, reason=reason))
            return
        logger.info("Machine %s has left.", name)
        self._unplace(node)

    @property
    def num_usable(self) -> int:
        """Slots but those of lost machines."""
        return len(self.slots) - sum(len(each.slots) for each in self.lost.values())

    @property
    def num_own(self) -> int:
        """Slots of the master's own machine."""
        return len(self.nodes[node_lib.OWN].slots)

    def list_numbers(self) -> list[int]:
        """Returns the numbers of all slots, in order, which is found anew once they change."""
        if not self._numbers:
            self._numbers = sorted(self.slots)
        return self._numbers

    def _is_listed(self, name: str) -> bool:
        return not name or name in self._listed

    # Who holds what.

    def hold(self, trial_id: int, node: str, slots: Iterable[int]) -> None:
        """Notes that a process holds slots.

        Args:
            trial_id: Its trial.
            node: Its machine, which may not have called since the master was started.
            slots: Numbers of the slots.
        """
        self.trials.setdefault(node, set()).add(trial_id)
        for number in slots:
            self.holders[number] = trial_id
            for pool in self._pools.values():
                pool.take(node, number)
        if node not in self.nodes and node in self._known:
            known = self._known[node]
            lost = node_lib.NodeState.LOST
            self._place(node_lib.Node(node, known.slots, known.labels, lost, _SILENT))

    def release(self, trial_id: int, node: str, slots: Iterable[int]) -> None:
        """Notes that a process does not hold its slots any more."""
        self.trials.get(node, set()).discard(trial_id)
        for number in slots:
            self.holders.pop(number, None)
            if number in self.slots:
                for pool in self._pools.values():
                    pool.give(self.slots[number])
        if node in self.nodes and not self._is_listed(node):
            self._remove(node)

    # Where there is room.

    def get_pool(self, needs: pools.Needs) -> pools.Pool:
        """Returns the slots that fit a need."""
        pool = self._pools.get(needs)
        if pool is None:
            pool = self._pools[needs] = pools.Pool(needs)
            for node in self.nodes.values():
                self._add_to(pool, node)
        return pool

    def count_slots(self) -> dict[pools.Needs, int]:
        """Returns how many slots fit each need that there is."""
        return {needs: pool.num_slots for needs, pool in self._pools.items()}

    def use_pools(self, wanted: Iterable[pools.Needs]) -> None:
        """Keeps the pools of those needs that there are, and no others."""
        self._pools = {needs: self.get_pool(needs) for needs in wanted}

    def _add_to(self, pool: pools.Pool, node: node_lib.Node) -> None:
        if node.state is node_lib.NodeState.ACTIVE:
            free = {slot.id for slot in node.slots if slot.id not in self.holders}
            pool.add_node(node.name, node.labels, node.slots, free)

    def find_lack(
        self, resources: experiment_sections.ResourcesConfig, *, is_new: bool = False
    ) -> str:
        """Returns what trials need that no machine has, or an empty text.

        Machines may call a while after the start of a master; nothing is said before. Nor is a new
        experiment refused where no slots are yet at all.
        """
        pool = self.get_pool(unmet_needs.find_needs(resources))
        least = resources.least
        if pool.can_ever_hold(least.slots_per_trial, least.num_processes):
            return ""
        if self.most_slots is not None and least.slots_per_trial <= self.most_slots:
            text = "No machine that is there has what is needed; others are asked for."
            return "" if is_new else text
        there = [each for each in self.nodes.values() if each.state is not node_lib.NodeState.LOST]
        if time.monotonic() - self._restored_at < CALL_SECS:
            return ""
        if is_new and not any(each.slots for each in there):
            return ""
        return unmet_needs.find_lack(resources, there)

    def is_active(self, name: str) -> bool:
        """Returns whether processes may be started on a machine, or stay there."""
        node = self.nodes.get(name)
        return node is not None and node.state is node_lib.NodeState.ACTIVE

    def find_neighbours(self, slots: Iterable[int]) -> set[int]:
        """Returns all slots of the machines of some slots; just these if there is one machine."""
        found = set(slots)
        others = [each for each in self.nodes.values() if each.slots]
        for node in others if len(others) > 1 else ():
            own = {slot.id for slot in node.slots}
            if own & found:
                found |= own
        return found

    def list_known(self) -> Mapping[str, node_lib.KnownNode]:
        """Returns the machines that have ever called, by name."""
        return self._known
