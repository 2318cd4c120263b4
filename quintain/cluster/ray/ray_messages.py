"""Messages between the master and the process that watches a Ray cluster for it.

Ray runs in a process of its own, `quintain.cluster.ray.ray_watcher`: a process that is connected to
a Ray cluster ends when its node does, gets twenty threads and other handlers of signals. A message
is one line of JSON; secrets travel through the pipe only, never by a command line or a variable.

| to the watcher | |
|---|---|
| `{"kind": "settings", ...}` | `Settings`; the first line |
| `{"kind": "join", "home_id": ..., ...}` | whose agents, and the `Address` at which they find it |
| `{"kind": "demand", "wanted": ..., ...}` | what to ask for |
| `{"kind": "leave", "busy": [...]}` | all agents but these end, and give back what they hold |

A demand names what waits, as processes with their slots, labels and kind of GPU; the nodes that
have processes, beside which that has to fit; and those whose agents leave, until they are not named
any more.

| from the watcher | |
|---|---|
| `{"kind": "connected", "version": ..., "address": ...}` | it is connected |
| `{"kind": "failed", "message": ...}` | it can't be, and ends |
| `{"kind": "nodes", "nodes": [...]}` | a `NodeNews` of each node, when something has changed |
| `{"kind": "demand", "problem": ...}` | why the autoscaler can't be asked; empty if it can |
| `{"kind": "left"}` | the agents that were to leave have left |
"""

import dataclasses
import json
from collections.abc import Mapping
from typing import IO, Any, Final

import quintain

LOCAL: Final = "local"
"""Address of a cluster of this machine alone, which lives as long as the watcher."""

RAY_IS_GONE: Final = "Ray's process of the node has ended."
"""Why an agent drains that has outlived it."""


@dataclasses.dataclass(frozen=True)
class Settings:
    """Address of a Ray cluster, and settings of the agents on it."""

    address: str = "auto"
    """`auto` for the cluster that this machine is part of, `HOST:PORT`, `ray://HOST:PORT`, or
    `local`."""

    slots: int | None = None
    """Slots of each node; None for one for each GPU, or shares of the CPUs."""

    threads_per_slot: int | None = None
    """CPU threads of a slot; None for equal shares."""

    directory: str = ""
    """Directory on the nodes, for agents and what they fetch; empty for their own choice."""

    master_url: str = ""
    """Where nodes find the master, if that is not where it listens: behind a proxy, say."""

    version: str = quintain.__version__
    """Version of this package on the machine of the master."""


@dataclasses.dataclass(frozen=True)
class Growth:
    """Limits on how far a cluster grows and shrinks with the demand of trials."""

    max_slots: int
    """Up to so many slots in all, nodes are asked for."""

    idle_secs: float = 60.0
    """A node on which nothing runs for so long is given back."""


@dataclasses.dataclass(frozen=True)
class NodeNews:
    """State of one node, as Ray describes it."""

    name: str
    """Name of the node's agent."""

    is_alive: bool
    """Whether Ray knows it as alive."""

    is_up: bool = False
    """Whether its agent runs."""

    problem: str = ""
    """Why it is not alive, or its agent does not run."""


def send(stream: IO[str], kind: str, **content: Any) -> None:
    """Sends a message."""
    stream.write(json.dumps({"kind": kind, **content}) + "\n")
    stream.flush()


def name_node(hostname: str, node_id: str) -> str:
    """Returns the name of the agent on a node.

    Several nodes may be on one machine, and a machine that comes back has another number. Its end
    differs also where whoever adds nodes numbers them.

    Example:
        >>> name_node("worker-3", "5256a248f23f2bbc")
        'worker-3-f23f2bbc'
    """
    return f"{hostname}-{node_id[-8:]}"


def to_news(content: list[Mapping[str, Any]]) -> list[NodeNews]:
    """Returns the news of a `nodes` message."""
    return [NodeNews(**each) for each in content]
