"""Scale-down: nodes without work, whose agents leave so that Ray may remove them.

A node leaves in two steps: first it is drained, and a moment later, if nothing was started on it
meanwhile, its agent is asked to leave. So no trial is ever stopped by that.
"""

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from quintain.master.placing import demand
from quintain.records.rows import node as node_lib

_SETTLE_SECS: Final = 1.0
"""So long after it was drained may a start still be on its way to a node."""


@dataclasses.dataclass(frozen=True)
class Changes:
    """Changes of nodes, by their names."""

    drain: tuple[str, ...] = ()
    """Nothing is started on these any more."""

    resume: tuple[str, ...] = ()
    """These are used again."""


class IdleNodes:
    """Decides which nodes leave and which come again.

    Attributes:
        released: Nodes whose agents are to leave, or have left, as they were.
    """

    def __init__(self, idle_secs: float) -> None:
        """Starts without nodes.

        Args:
            idle_secs: A node on which nothing runs for so long leaves.
        """
        self._idle_secs = idle_secs
        self._idle_since: dict[str, float] = {}
        self._draining: dict[str, float] = {}
        self.released: dict[str, node_lib.Node] = {}

    def forget(self, name: str) -> None:
        """Forgets a node that is gone."""
        self.released.pop(name, None)

    def decide(
        self,
        nodes: Mapping[str, node_lib.Node],
        busy: Iterable[str],
        wanted: Sequence[demand.Wanted],
        now_secs: float,
    ) -> Changes:
        """Returns what is to be done with the nodes, and notes those that are released.

        Args:
            nodes: The nodes that have agents.
            busy: Those that have processes, or are about to have.
            wanted: What trials want that wait.
            now_secs: The monotonic clock.
        """
        busy = set(busy)
        for name, node in [*self.released.items()]:
            if name in busy or _is_wanted(node, wanted):
                del self.released[name]
        used = {
            name
            for name, node in nodes.items()
            if name in busy or (name not in self.released and _is_wanted(node, wanted))
        }
        resume = tuple(sorted(used & self._draining.keys()))
        idle = {name: node for name, node in nodes.items() if name not in used}
        self._idle_since = {n: secs for n, secs in self._idle_since.items() if n in idle}
        self._draining = {n: secs for n, secs in self._draining.items() if n in idle}
        drain = []
        for name, node in idle.items():
            if name in self.released:
                continue
            since_secs = self._idle_since.setdefault(name, now_secs)
            if name in self._draining:
                if now_secs - self._draining[name] >= _SETTLE_SECS:
                    del self._draining[name], self._idle_since[name]
                    self.released[name] = node
            elif (
                node.state is node_lib.NodeState.ACTIVE and now_secs - since_secs >= self._idle_secs
            ):
                self._draining[name] = now_secs
                drain.append(name)
        return Changes(tuple(drain), resume)


def _is_wanted(node: node_lib.Node, wanted: Sequence[demand.Wanted]) -> bool:
    """Returns whether a process that waits could be on a node."""
    return any(
        each.needs.admits_node(node.labels)
        and sum(map(each.needs.admits_slot, node.slots)) >= each.num_slots
        for each in wanted
    )
