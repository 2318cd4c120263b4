"""Demand actor: asks Ray's autoscaler for nodes, as long as masters renew their lease.

Ray keeps what it was asked for until it is asked for something else, even if whoever asked is
gone. So an actor asks, which lives on the cluster's head, and takes back what no master has asked
for again within `LEASE_SECS`. Ray knows one request for the whole cluster: the actor adds up
what several masters ask for.
"""

import importlib
import logging
import threading
import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, Protocol

from quintain.master.placing import slots as slots_lib

logger = logging.getLogger(__name__)

LEASE_SECS: Final = 30.0
"""So long after it was asked for last, nodes are not asked for any more."""

_KEEP_SECS: Final = 5.0
"""How often it is asked for again."""

_RETRY_SECS: Final = 15.0
_HEAD_RESOURCE: Final = "node:__internal_head__"
_GPU_TYPE_LABEL: Final = "ray.io/accelerator-type"

Bundle = dict[str, Any]
"""`resources`, which have to be on one node, and the `labels` of that node."""


class DemandKeeper:
    """An actor; asks Ray's autoscaler for the nodes that masters want.

    Args:
        lease_secs: What is not asked for again within so long is taken back.
    """

    def __init__(self, lease_secs: float = LEASE_SECS) -> None:
        self._lease_secs = lease_secs
        self._lock = threading.Lock()
        self._asked: dict[str, tuple[float, list[Bundle]]] = {}
        self._last_secs = time.monotonic()
        threading.Thread(target=self._watch, name="quintain-demand", daemon=True).start()

    def keep(self, home_id: str, bundles: list[Bundle]) -> str:
        """Asks for nodes; returns why that is not possible, or an empty text."""
        with self._lock:
            self._last_secs = time.monotonic()
            self._asked[home_id] = (self._last_secs, bundles)
            if not bundles:
                del self._asked[home_id]
            return self._tell()

    def _tell(self) -> str:
        sdk = importlib.import_module("ray.autoscaler.sdk")
        bundles = [each for _, own in self._asked.values() for each in own]
        try:
            sdk.request_resources(
                bundles=[each["resources"] for each in bundles],
                bundle_label_selectors=[each["labels"] for each in bundles],
            )
        except Exception as error:  # noqa: BLE001 - Ray's errors have no common class.
            logger.warning("Ray's autoscaler can't be asked: %s", error)
            return f"Ray's autoscaler can't be asked for nodes: {error}"
        return ""

    def drop_old(self, now_secs: float) -> bool:
        """Takes back what was not asked for again; returns whether no master asks any more."""
        with self._lock:
            oldest_secs = now_secs - self._lease_secs
            kept = {name: each for name, each in self._asked.items() if each[0] >= oldest_secs}
            if len(kept) < len(self._asked):
                self._asked = kept
                self._tell()
            return self._last_secs < oldest_secs

    def _watch(self) -> None:
        """Ends the actor when no master needs it; runs in a thread of its own."""
        waiting = threading.Event()
        while not waiting.wait(min(1.0, self._lease_secs)):
            if self.drop_old(time.monotonic()):
                # Also one that was started again may have something to take back.
                with self._lock:
                    self._tell()
                ray = importlib.import_module("ray")
                ray.kill(ray.get_runtime_context().current_actor, no_restart=True)
                return


class Machine(Protocol):
    """Resources of a node of Ray."""

    name: str
    """Name of its agent."""

    cpus: float
    """Its CPUs."""

    gpus: float
    """Its GPUs."""


def build_bundles(
    content: Mapping[str, Any],
    machines: Sequence[Machine],
    slots: int | None,
    threads_per_slot: int | None,
) -> list[Bundle]:
    """Returns what has to fit on nodes.

    Ray compares it with what nodes have in all, whoever uses it. So nodes with trials are told
    as a whole, and beside them the processes that wait.

    Args:
        content: A `demand` message.
        machines: The nodes that are there.
        slots: Slots of each node, if that was said.
        threads_per_slot: CPUs of each slot, if that was said.
    """
    wanted = content["wanted"]
    if not wanted:
        return []
    bundles: list[Bundle] = []
    busy = set(content["busy"])
    for each in machines:
        if each.name in busy:
            resources = {"CPU": each.cpus, "GPU": each.gpus}
            held = {kind: number for kind, number in resources.items() if number}
            bundles.append({"resources": held, "labels": {}})
    cpus = _count_cpus_per_slot(machines, slots, threads_per_slot)
    for each in wanted:
        labels, gpu = dict(each["labels"]), each["gpu"]
        if isinstance(gpu, str):
            labels.setdefault(_GPU_TYPE_LABEL, gpu)
        kind, number = ("GPU", 1.0) if gpu else ("CPU", cpus)
        resources = {kind: each["num_slots"] * number}
        bundles += [{"resources": resources, "labels": labels}] * each["count"]
    return bundles


def _count_cpus_per_slot(
    machines: Iterable[Machine], slots: int | None, threads_per_slot: int | None
) -> float:
    """Returns how many CPUs of a node a slot takes: rather too few than more than nodes have.

    If there are too few, more nodes are asked for once those that come are in use.
    """
    found = [
        each.cpus
        / len(
            slots_lib.find_slots(
                slots,
                threads_per_slot,
                num_cores=max(int(each.cpus), 1),
                devices=[str(number) for number in range(int(each.gpus))],
            )
        )
        for each in machines
        if each.cpus
    ]
    return min(found, default=float(threads_per_slot or 1))


class DemandSender:
    """Has the actor ask for nodes; used by the watcher.

    Args:
        ray: The module; it is connected.

    Attributes:
        problem: Why nodes can't be asked for; empty if they can.
    """

    def __init__(self, ray: Any) -> None:
        self._ray = ray
        self.problem = ""
        self._handle: Any = None
        self._answer: Any = None
        self._told: list[Bundle] = []
        self._next_secs = 0.0

    def keep(self, home_id: str, bundles: list[Bundle], nodes: Iterable[Mapping[str, Any]]) -> None:
        """Asks for nodes, if that is due; does not wait."""
        now_secs = time.monotonic()
        if self._answer is not None:
            self._take_answer(now_secs)
        is_new = bundles != self._told and not self.problem
        is_due = now_secs >= self._next_secs and (bundles or self.problem)
        if self._answer is not None or not (is_new or is_due):
            return
        self._told, self._next_secs = bundles, now_secs + _KEEP_SECS
        if self._handle is None:
            self._handle = self._start(nodes)
        self._answer = self._handle.keep.remote(home_id, bundles)

    def withdraw(self, home_id: str, timeout_secs: float) -> None:
        """Takes back what was asked for, and waits for that."""
        if self._handle is not None and self._told:
            answer = self._handle.keep.remote(home_id, [])
            self._ray.wait([answer], num_returns=1, timeout=timeout_secs)
            self._told = []

    def _take_answer(self, now_secs: float) -> None:
        done, _ = self._ray.wait([self._answer], timeout=0)
        if not done:
            return
        try:
            self.problem = self._ray.get(self._answer)
        except Exception as error:  # noqa: BLE001 - whatever it is, it is told.
            text = str(error).strip().splitlines() or [type(error).__name__]
            self.problem = f"Ray's autoscaler can't be asked for nodes: {text[-1].strip()}"
            self._handle = None
        if self.problem:
            self._next_secs = now_secs + _RETRY_SECS
        self._answer = None

    def _start(self, nodes: Iterable[Mapping[str, Any]]) -> Any:
        options: dict[str, Any] = {}
        for each in nodes:
            if each["Alive"] and _HEAD_RESOURCE in each["Resources"]:
                # On another node it would keep that from being idle.
                strategies = importlib.import_module("ray.util.scheduling_strategies")
                options["scheduling_strategy"] = strategies.NodeAffinitySchedulingStrategy(
                    each["NodeID"], soft=False
                )
        actor = self._ray.remote(DemandKeeper)
        return actor.options(
            name="demand",
            namespace="quintain",
            lifetime="detached",
            get_if_exists=True,
            max_restarts=-1,
            num_cpus=0,
            **options,
        ).remote()
