"""Starts trials on the nodes of a Ray cluster.

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
from quintain.cluster import agent_launcher, ray_messages, ray_process
from quintain.records import node as node_lib
from quintain.scheduler import launcher

_AGENTS_SECS: Final = 10.0
"""For so long a master that starts waits for the agents of nodes that are there. Those that it does
not wait for join later: one that is cut off must hold up nobody."""

_POLL_SECS: Final = 0.05


class RayLauncher(agent_launcher.AgentLauncher):
    """Starts trials by agents that Ray keeps on its nodes.

    Args:
        local: Starts processes on the machine of the master.
        settings: The cluster, and what its agents are to be like.
        log_path: File for what Ray says.
        node_timeout_secs: See `AgentLauncher`.
    """

    def __init__(
        self,
        local: launcher.Launcher,
        settings: ray_messages.Settings,
        log_path: pathlib.Path,
        *,
        node_timeout_secs: float = agent_launcher.NODE_TIMEOUT_SECS,
    ) -> None:
        super().__init__(local, node_timeout_secs=node_timeout_secs)
        self._settings = settings
        self._news: list[ray_messages.NodeNews] | None = None
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
        here = {each.name for each in super().list_nodes()}
        return self._news is not None and all(
            each.problem or each.name in here for each in self._news
        )

    def _take(self, news: list[ray_messages.NodeNews]) -> None:
        self._news = news
        for each in news:
            if not each.is_alive:
                self._lose(each)

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
    def find_slowness(self) -> str:
        return self._process.problem or super().find_slowness()

    @override
    def close(self, *, kill: bool) -> None:
        super().close(kill=kill)
        busy = []
        for member in self._members.values():
            with member.lock:
                if not all(each.is_over for each in member.launches.values()):
                    busy.append(member.name)
        self._process.leave(busy)
        self._process.close()
