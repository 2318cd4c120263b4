"""Launcher of trials on the nodes of a Ray cluster.

Ray gives the nodes, keeps an agent on each, and says which of them die. All else is between the
agents and the master, as it is with agents that were started by hand: no trial passes through Ray,
and a cluster that can't be asked for a while harms none.
"""

import dataclasses
import pathlib
import time
from typing import Final

from typing_extensions import override

from quintain.client import address as address_lib
from quintain.cluster.agents import agent_launcher, idle_nodes
from quintain.cluster.ray import ray_messages, ray_process
from quintain.master.placing import demand
from quintain.master.processes import launcher
from quintain.records.rows import node as node_lib

_AGENTS_SECS: Final = 10.0
"""For so long a master that starts waits for the agents of nodes that are there. Those that it does
not wait for join later: one that is cut off must hold up nobody."""

_POLL_SECS: Final = 0.05
_LOOK_SECS: Final = 0.5


class RayLauncher(agent_launcher.AgentLauncher):
    """Starts trials by agents that Ray keeps on its nodes.

    Args:
        local: Starts processes on the machine of the master.
        settings: The cluster, and what its agents are to be like.
        log_path: File for what Ray says.
        growth: How far the cluster grows and shrinks with what trials want; None if it does not.
        node_timeout_secs: See `AgentLauncher`.
    """

    def __init__(
        self,
        local: launcher.Launcher,
        settings: ray_messages.Settings,
        log_path: pathlib.Path,
        *,
        growth: ray_messages.Growth | None = None,
        node_timeout_secs: float = agent_launcher.NODE_TIMEOUT_SECS,
    ) -> None:
        super().__init__(local, node_timeout_secs=node_timeout_secs)
        self._settings = settings
        self._news: list[ray_messages.NodeNews] | None = None
        self._growth = growth
        self._idle = idle_nodes.IdleNodes(growth.idle_secs if growth else 0.0)
        self._demand = demand.Demand()
        self._next_look_secs = 0.0
        self._process = ray_process.RayProcess(settings, log_path, self._take)

    def connect(self) -> None:
        """Connects to the cluster.

        Raises:
            ClusterError: If that is not possible; the message says what to do.
        """
        self._process.start()

    def join(self, home_id: str, address: address_lib.Address) -> None:
        """Starts agents, or finds those of a former master, and waits for the nodes that are there.

        Args:
            home_id: Name of the home directory.
            address: Where agents find the master, with their token.
        """
        self._news = None
        if self._settings.master_url:
            address = dataclasses.replace(address, url=self._settings.master_url)
        self._process.join(home_id, address)
        deadline_secs = time.monotonic() + _AGENTS_SECS
        while time.monotonic() < deadline_secs and not self._is_complete():
            time.sleep(_POLL_SECS)

    def _is_complete(self) -> bool:
        """Returns whether each node has an agent that has called, or a problem."""
        return self._news is not None and not self.list_awaited()

    def _take(self, news: list[ray_messages.NodeNews]) -> None:
        self._news = news
        for each in news:
            if not each.is_alive:
                self._lose(each)

    @override
    def poll(self) -> list[launcher.ProcessExit]:
        exits = super().poll()
        now_secs = self._clock()
        if self._growth is not None and self._news is not None and now_secs >= self._next_look_secs:
            self._next_look_secs = now_secs + _LOOK_SECS
            self._fit(self._growth, now_secs)
        return exits

    def _fit(self, growth: ray_messages.Growth, now_secs: float) -> None:
        """Asks for nodes that trials wait for, and lets those leave that have nothing to do.

        It is called by the thread that starts processes: none starts meanwhile.
        """
        nodes = {}
        for each in self._news or []:
            member = self._members.get(each.name)
            node = member.to_node() if member is not None and each.is_alive else None
            if node is not None and node.state is not node_lib.NodeState.LOST:
                nodes[each.name] = node
            elif not each.is_alive:
                self._idle.forget(each.name)
        busy = nodes.keys() & set(self._list_busy())
        changes = self._idle.decide(nodes, busy, self._demand.wanted, now_secs)
        for name in changes.drain:
            self.drain(name, f"Nothing has run on it for {growth.idle_secs:g} s.")
        for name in changes.resume:
            self.drain(name, "")
        self._process.ask(
            {
                "wanted": [
                    {
                        "num_slots": each.num_slots,
                        "count": each.num_processes * each.num_trials,
                        "labels": dict(each.needs.labels),
                        "gpu": each.needs.gpu,
                    }
                    for each in self._demand.cut(growth.max_slots)
                ],
                "busy": sorted(busy),
                "released": sorted(self._idle.released),
            }
        )

    @override
    def find_most_slots(self) -> int | None:
        return None if self._growth is None else self._growth.max_slots

    @override
    def ask(self, wanted: demand.Demand) -> None:
        self._demand = wanted

    def _find_waiting(self) -> str:
        """Returns what nodes are waited for, or an empty text."""
        if self._growth is None:
            return ""
        most, problem = self._growth.max_slots, self._process.demand_problem
        count = demand.count_slots(self._demand.cut(most))
        if not count or problem:
            return problem if count else ""
        asked = f"{count} slot{'s' if count > 1 else ''} asked"
        return f"Waiting for Ray to add nodes: {asked} (of --ray-max-slots={most})."

    def _list_busy(self) -> list[str]:
        """Returns the machines that have processes, or are about to have."""
        busy = []
        for member in list(self._members.values()):
            with member.lock:
                if not all(each.is_over for each in member.launches.values()):
                    busy.append(member.name)
        return busy

    def _lose(self, news: ray_messages.NodeNews) -> None:
        member = self._members.get(news.name)
        # An agent that has outlived Ray's process on its node says so itself, and saves its trials.
        if member is not None and member.own_drain != ray_messages.RAY_IS_GONE:
            self.report_lost(news.name, news.problem)

    @override
    def list_nodes(self) -> list[node_lib.Node]:
        """Returns the machines; those whose agents can't run have no slots, and a reason."""
        nodes = super().list_nodes()
        here = {each.name for each in nodes}
        return nodes + [
            node_lib.Node(each.name, state=node_lib.NodeState.LOST, reason=each.problem)
            for each in self._news or []
            if each.is_alive and each.problem and each.name not in here
        ]

    @override
    def list_awaited(self) -> list[str]:
        """Returns the nodes whose agents have not called yet, and have no problem either."""
        here, left = {each.name for each in super().list_nodes()}, self._idle.released
        return [
            each.name
            for each in self._news or []
            if each.is_alive and not (each.problem or each.name in here or each.name in left)
        ]

    @override
    def find_slowness(self) -> str:
        return self._process.problem or self._find_waiting() or super().find_slowness()

    @override
    def close(self, *, kill: bool) -> None:
        super().close(kill=kill)
        self._process.leave(self._list_busy())
        self._process.close()
