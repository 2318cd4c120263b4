"""Watcher of a Ray cluster, which keeps an agent on each node.

The master starts `python -m quintain.cluster.ray.ray_watcher`, and talks to it as `ray_messages`
says. It ends with the master; agents are detached, and go on. All that it knows it asks Ray for
again after a start, so that it may be killed at any time.
"""

import contextlib
import dataclasses
import importlib
import json
import os
import queue
import socket
import sys
import threading
import time
from collections.abc import Callable, Mapping
from typing import IO, Any, Final
from urllib import parse

from quintain.client import address as address_lib
from quintain.cluster.ray import ray_agent, ray_connection, ray_demand, ray_messages

_TICK_SECS: Final = 0.25
_CHECK_SECS: Final = 10.0
"""Seconds between two looks at whether an agent is still there."""

_PATIENCE_SECS: Final = 3.0
"""Seconds after which an agent that has not started is said to wait."""

_RETRY_SECS: Final = 15.0
"""Seconds after which an agent that could not start is tried again."""

_AGAIN_SECS: Final = 0.5
"""Seconds after which an agent is asked again that is about to be there."""

_WITHDRAW_SECS: Final = 2.0
_LEAVE_SECS: Final = 5.0
_END_SECS: Final = 5.0
"""Seconds after the end of the master in which the connection may be ended in order."""


@dataclasses.dataclass
class _Node:
    """Watcher's state of one node's agent."""

    node_id: str
    name: str
    cpus: float
    gpus: float
    handle: Any = None
    answer: Any = None
    """Reference of a call that is under way."""
    asked_secs: float = 0.0
    next_secs: float = 0.0
    """When to ask it next."""
    is_up: bool = False
    problem: str = ""
    leaving: Any = None
    """Reference of the call by which it leaves, having nothing to do."""
    left: bool = False
    """Whether it was told to leave, and is not started again."""


class Watcher:
    """Keeps an agent on each node of the cluster that Ray is connected to.

    Args:
        ray: The module; it is connected.
        settings: What agents are to be like.
    """

    def __init__(self, ray: Any, settings: ray_messages.Settings) -> None:
        self._ray = ray
        self._settings = settings
        self._home_id = ""
        self._address: dict[str, str] = {}
        self._nodes: dict[str, _Node] = {}
        self._demand: dict[str, Any] | None = None
        self._sender = ray_demand.DemandSender(ray)

    @property
    def demand_problem(self) -> str:
        """Reason for which Ray's autoscaler can't be asked for nodes; empty if it can."""
        return self._sender.problem

    def join(self, home_id: str, address: dict[str, str]) -> None:
        """Takes where the master is; from now on there are agents.

        Args:
            home_id: Name of the master's home. Agents of other masters are left alone.
            address: `client.address.Address` as plain data.
        """
        self._home_id, self._address = home_id, address
        for node in self._nodes.values():
            node.answer, node.next_secs, node.is_up = None, 0.0, False

    def ask(self, demand: dict[str, Any]) -> None:
        """Takes what to ask Ray for, and which nodes are to leave: a message of that kind."""
        self._demand = demand

    def withdraw(self) -> None:
        """Asks Ray for nothing any more."""
        self._demand = None
        self._sender.withdraw(self._home_id, _WITHDRAW_SECS)

    def leave(self, busy: list[str]) -> None:
        """Ends all agents but some, and gives back what they hold of the cluster."""
        self.withdraw()
        leaving = [node for node in self._nodes.values() if node.name not in busy and node.handle]
        answers = [node.handle.leave.remote() for node in leaving]
        if answers:
            self._ray.wait(answers, num_returns=len(answers), timeout=_LEAVE_SECS)
        for node in leaving:
            self._ray.kill(node.handle, no_restart=True)
            node.handle, node.answer, node.left, node.is_up = None, None, True, False

    def look(self) -> list[ray_messages.NodeNews]:
        """Looks after the agents, and returns the news of all nodes."""
        news, listed = [], self._ray.nodes()
        released = self._demand["released"] if self._demand else ()
        for found in listed:
            name = self._name(found)
            if found["Alive"]:
                node = self._nodes.setdefault(found["NodeID"], _to_node(found, name))
                if self._address and (node.cpus or node.gpus) and not node.left:
                    if node.leaving is not None or name in released:
                        self._release(node)
                    elif obstacle := self._find_obstacle(found):
                        node.problem = obstacle
                    else:
                        self._look_after(node)
                    news.append(ray_messages.NodeNews(name, True, node.is_up, node.problem))
            else:
                self._nodes.pop(found["NodeID"], None)
                reason = found.get("DeathReasonMessage") or "the node is gone"
                news.append(ray_messages.NodeNews(name, False, problem=f"Ray: {reason}"))
        if self._demand is not None and self._home_id:
            settings = self._settings
            bundles = ray_demand.build_bundles(
                self._demand,
                [*self._nodes.values()],
                settings.slots,
                settings.threads_per_slot,
            )
            self._sender.keep(self._home_id, bundles, listed)
        return news

    def _release(self, node: _Node) -> None:
        """Lets the agent of a node leave, and gives back what it holds."""
        node.is_up, node.problem, node.answer = False, "", None
        if node.handle is None:
            return
        if node.leaving is None:
            node.leaving = node.handle.retire.remote()
        done, _ = self._ray.wait([node.leaving], timeout=0)
        if done:
            self._ray.kill(node.handle, no_restart=True)
            node.handle = node.leaving = None
            node.next_secs = 0.0

    def _name(self, found: Mapping[str, Any]) -> str:
        hostname = found["NodeManagerHostname"]
        if self._settings.address == ray_messages.LOCAL:
            return str(hostname)
        return ray_messages.name_node(hostname, found["NodeID"])

    def _find_obstacle(self, found: Mapping[str, Any]) -> str:
        """Returns why a node can't reach the master, where that is plain."""
        url = self._address["url"]
        is_own = found["NodeManagerHostname"] == socket.gethostname()
        if is_own or not address_lib.is_loopback(parse.urlsplit(url).hostname or ""):
            return ""
        return (
            f"The node can't reach the master, which listens at {url} only. Start the master with "
            "--host=ADDRESS, an address of its machine that the nodes know."
        )

    def _look_after(self, node: _Node) -> None:
        now_secs = time.monotonic()
        if node.answer is None:
            if now_secs < node.next_secs:
                return
            self._ask(node)
        done, _ = self._ray.wait([node.answer], timeout=0)
        if not done:
            if not node.is_up and now_secs - node.asked_secs > _PATIENCE_SECS:
                node.problem = self._explain_wait(node)
            return
        try:
            told = self._ray.get(node.answer)
        except self._ray.exceptions.ActorUnavailableError:
            # Ray starts it again.
            node.is_up, node.next_secs = False, now_secs + _AGAIN_SECS
        except Exception as error:  # noqa: BLE001 - whatever it is, it is this node's, and is told.
            node.is_up, node.problem, node.handle = False, _explain(error), None
            node.next_secs = now_secs + _RETRY_SECS
        else:
            node.is_up, node.problem = not told["problem"], told["problem"]
            node.next_secs = now_secs + _CHECK_SECS
            if told["is_stale"]:
                self._ray.kill(node.handle, no_restart=True)
                node.handle, node.next_secs = None, now_secs + _AGAIN_SECS
        node.answer = None

    def _ask(self, node: _Node) -> None:
        """Makes sure of an agent, and asks it how it is."""
        node.asked_secs = time.monotonic()
        if node.handle is None:
            node.handle = self._start(node)
        node.answer = node.handle.join.remote(dataclasses.asdict(self._settings), self._address)

    def _start(self, node: _Node) -> Any:
        strategies = importlib.import_module("ray.util.scheduling_strategies")
        actor = self._ray.remote(ray_agent.RayAgent)
        return actor.options(
            name=f"agent-{node.node_id}",
            namespace=f"quintain-{self._home_id}",
            lifetime="detached",
            get_if_exists=True,
            max_restarts=-1,
            num_cpus=self._count_cpus(node),
            num_gpus=self._count_gpus(node),
            scheduling_strategy=strategies.NodeAffinitySchedulingStrategy(node.node_id, soft=False),
        ).remote(dataclasses.asdict(self._settings), self._home_id, node.name)

    def _count_cpus(self, node: _Node) -> float:
        slots, threads = self._settings.slots, self._settings.threads_per_slot
        if slots is None or threads is None:
            return node.cpus
        return min(node.cpus, slots * threads)

    def _count_gpus(self, node: _Node) -> float:
        return min(node.gpus, self._settings.slots or node.gpus)

    def _explain_wait(self, node: _Node) -> str:
        wanted = f"{self._count_cpus(node):g} CPUs"
        if node.gpus:
            wanted += f" and {self._count_gpus(node):g} GPUs"
        return (
            f"Its agent waits for {wanted} of this node that other actors or tasks of Ray hold "
            "(`ray status` shows it)."
        )


def _to_node(found: Mapping[str, Any], name: str) -> _Node:
    resources = found["Resources"]
    return _Node(found["NodeID"], name, resources.get("CPU", 0.0), resources.get("GPU", 0.0))


def _explain(error: Exception) -> str:
    text = str(error)
    if "No module named 'quintain" in text:
        return (
            "quintain is not installed there, in the Python that Ray runs in. Install the same "
            "version as on the machine of the master."
        )
    if "not schedulable" in text:
        return "Ray is about to remove the node, and starts no agent there."
    # Of an error in an actor, Ray tells the traceback there first, and the message last.
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    message = lines[-1] if lines else type(error).__name__
    return f"Its agent could not start: {message}"


def _listen(
    stream: IO[str], heard: "queue.Queue[dict[str, Any] | None]", note_end: Callable[[], None]
) -> None:
    for line in stream:
        heard.put(json.loads(line))
    heard.put(None)
    note_end()


def _end_soon() -> None:
    """Ends this process, which may wait for Ray in vain: the master has ended."""
    time.sleep(_END_SECS)
    os._exit(1)


def run(stdin: IO[str], stdout: IO[str], note_end: Callable[[], None] = lambda: None) -> int:
    """Watches a cluster until `stdin` ends, and returns an exit code.

    Args:
        stdin: What the master says.
        stdout: What it is told.
        note_end: Called by a thread when `stdin` has ended.
    """
    content = json.loads(stdin.readline())
    del content["kind"]
    settings = ray_messages.Settings(**content)
    heard: queue.Queue[dict[str, Any] | None] = queue.Queue()
    threading.Thread(target=_listen, args=(stdin, heard, note_end), daemon=True).start()
    try:
        ray = ray_connection.connect(settings)
    except ray_connection.ConnectError as error:
        ray_messages.send(stdout, "failed", message=str(error))
        return 1
    context = ray.get_runtime_context()
    ray_messages.send(
        stdout, "connected", version=ray.__version__, address=str(context.gcs_address)
    )
    watcher, told, problem = Watcher(ray, settings), None, ""
    while True:
        news = watcher.look()
        if watcher.demand_problem != problem:
            problem = watcher.demand_problem
            ray_messages.send(stdout, "demand", problem=problem)
        if news != told:
            ray_messages.send(stdout, "nodes", nodes=[dataclasses.asdict(each) for each in news])
            told = news
        try:
            message = heard.get(timeout=_TICK_SECS)
        except queue.Empty:
            continue
        if message is None:
            watcher.withdraw()
            ray.shutdown()
            return 0
        if message["kind"] == "join":
            told = None  # Who has joined knows of no nodes yet, not even that there are none.
        _obey(watcher, message, stdout)


def _obey(watcher: Watcher, message: dict[str, Any], stdout: IO[str]) -> None:
    match message.pop("kind"):
        case "join":
            watcher.join(message.pop("home_id"), message)
        case "demand":
            watcher.ask(message)
        case "leave":
            watcher.leave(message["busy"])
            ray_messages.send(stdout, "left")


def main() -> None:
    """Watches a cluster; what Ray prints goes to standard error, whatever it was meant for."""
    messages = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    with contextlib.suppress(BrokenPipeError):  # The master has ended.
        sys.exit(run(sys.stdin, messages, _end_soon))


if __name__ == "__main__":
    main()
