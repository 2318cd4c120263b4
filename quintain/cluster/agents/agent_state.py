"""Master's state of one agent: its session, orders and launches."""

import contextlib
import dataclasses
import secrets
import threading
from collections.abc import Callable, Iterator
from typing import Final

from quintain import errors
from quintain.cluster.agents import agent_protocol
from quintain.master.processes import launcher, usage_meter
from quintain.records.rows import node as node_lib

_AGENTS_THAT_ASK: Final = 20
"""So many agents ask for orders in a second while there are none, as far as time allows."""

_AGENTS_FOR_A_SECOND: Final = 500
"""So many agents look at their logs once a second; fewer more often, more of them less often."""

_AGENTS_FOR_A_SAMPLE: Final = 10
"""So many agents tell once a second what their processes use."""

_LEAST_LOG_SECS: Final = 0.2


def find_paces(num_agents: int, timeout_secs: float) -> dict[str, float]:
    """Returns the seconds of a `Welcome`: the more agents there are, the less often each calls.

    Args:
        num_agents: How many there are.
        timeout_secs: An agent of which nothing was heard for so long is lost.
    """
    wait_secs = max(timeout_secs / 3.0, min(num_agents / _AGENTS_THAT_ASK, timeout_secs / 2.0))
    return {
        "wait_secs": min(wait_secs, agent_protocol.MAX_WAIT_SECS),
        "log_secs": max(_LEAST_LOG_SECS, num_agents / _AGENTS_FOR_A_SECOND),
        "usage_secs": max(usage_meter.SAMPLE_SECS, num_agents / _AGENTS_FOR_A_SAMPLE),
    }


@dataclasses.dataclass(slots=True)
class RemoteLaunch:
    """A launch on a machine of an agent."""

    launch_id: str
    """Name of the launch."""

    trial_id: int
    """The trial."""

    member: "Member"
    """The agent."""

    order: launcher.LaunchRequest | None = None
    """How to start it; None once the agent has said that it did."""

    offset: int | None = None
    """Bytes of its log that were received; None if that is not known."""

    is_killed: bool = False
    """Whether it is to be ended."""

    is_over: bool = False
    """Whether its exit is known."""


class Member:
    """One agent. Whoever uses it holds `lock`, which is held shortly only.

    Attributes:
        lock: Held by whoever reads or changes what is below.
        name: Name of the machine.
        hello: What the agent said of itself; None if it has not called yet.
        session: Its session; empty if it has none.
        heard_secs: When it was heard last; seconds of a monotonic clock.
        state: Whether it takes trials.
        reason: Why it is not active.
        own_drain: Why it says that it is about to leave; empty if it does not.
        told_drain: Why others say so.
        launches: Its launches by name.
        received: Number of the last report that was received.
        kept: Number of the last report whose lines are stored.
    """

    def __init__(self, name: str, heard_secs: float) -> None:
        self.lock = threading.Lock()
        self.name = name
        self.hello: agent_protocol.Hello | None = None
        self.session = ""
        self.heard_secs = heard_secs
        self.state = node_lib.NodeState.ACTIVE
        self.reason = self.own_drain = self.told_drain = ""
        self.launches: dict[str, RemoteLaunch] = {}
        self.kept = 0
        self.received = 0
        self._shown: tuple[object, node_lib.Node] | None = None
        self._orders: list[agent_protocol.Order] = []
        self._last_order = 0
        self._wakers: set[Callable[[], object]] = set()

    def begin(self, hello: agent_protocol.Hello, now_secs: float) -> None:
        """Begins a session of an agent that has called."""
        self.hello = hello
        self.heard_secs = now_secs
        self.session = secrets.token_hex(8)
        self.kept = self.received = self._last_order = 0
        self._orders.clear()
        self.wake()

    def check_rival(
        self, hello: agent_protocol.Hello, now_secs: float, timeout_secs: float
    ) -> None:
        """Checks that no other agent of this name is there.

        Raises:
            StateError: If there is one.
        """
        former, silent_secs = self.hello, now_secs - self.heard_secs
        if not self.session or former is None or silent_secs > timeout_secs:
            return
        if (former.agent_id, former.place) != (hello.agent_id, hello.place):
            raise errors.StateError(
                f"Another agent is called {self.name!r}; it was heard {silent_secs:.0f} s ago. "
                "Give this one another name (--name), and a directory of its own, or wait until "
                f"{timeout_secs:g} s after that one has ended."
            )

    def compare_launches(self) -> list[RemoteLaunch]:
        """Orders what differs between what the agent has and what is known of it.

        Returns:
            Launches whose processes it should have, and has not.
        """
        assert self.hello is not None
        missing, theirs = [], set(self.hello.launches)
        for launch_id in self.hello.launches:
            if launch_id not in self.launches:
                self.order(agent_protocol.OrderKind.DROP, launch_id)
        for remote in self.launches.values():
            if remote.is_over:
                continue
            if remote.launch_id in theirs:
                remote.order = None
                if remote.is_killed:
                    self.order(agent_protocol.OrderKind.KILL, remote.launch_id)
            elif remote.order is not None and not remote.is_killed:
                self.order(agent_protocol.OrderKind.START, remote.launch_id, remote.order)
            else:
                missing.append(remote)
        return missing

    def list_offsets(self) -> dict[str, int]:
        """Returns how many bytes of the logs of launches that the agent has were received."""
        assert self.hello is not None
        return {
            launch_id: remote.offset
            for launch_id in self.hello.launches
            if (remote := self.launches.get(launch_id)) is not None and remote.offset is not None
        }

    def note_kept(self, session: str, number: int) -> None:
        """Notes that the lines of a report of a session are stored. Takes the lock."""
        with self.lock:
            if session == self.session:
                self.kept = number
                self.wake()

    def to_node(self) -> node_lib.Node | None:
        """Returns the machine, or None if it has not called yet. Takes the lock.

        It is the same object as long as it is equal, so that comparisons are quick.
        """
        with self.lock:
            if self.hello is None:
                return None
            key = (self.hello.slots, self.hello.labels, self.state, self.reason)
            if self._shown is None or self._shown[0] != key:
                slots, labels = self.hello.slots, dict(self.hello.labels)
                node = node_lib.Node(self.name, slots, labels, self.state, self.reason)
                self._shown = (key, node)
            return self._shown[1]

    def set_own_drain(self, reason: str) -> None:
        """Notes why the agent says that it is about to leave; an empty text if it does not."""
        self.own_drain = reason
        self.set_state()

    def set_state(self) -> None:
        """Makes the state that of an agent that is there, unless it is lost."""
        states = node_lib.NodeState
        if self.state is not states.LOST:
            self.reason = self.own_drain or self.told_drain
            self.state = states.DRAINING if self.reason else states.ACTIVE

    def end(self) -> None:
        """Ends the session, if there is one."""
        self.session = ""
        self._orders.clear()
        self.wake()

    def check_session(self, session: str, now_secs: float) -> None:
        """Notes that the agent was heard.

        Raises:
            GoneError: If the session has ended.
        """
        if not self.session or session != self.session:
            raise errors.GoneError(f"The session of agent {self.name} has ended; register again.")
        self.heard_secs = now_secs

    def order(
        self,
        kind: agent_protocol.OrderKind,
        launch_id: str,
        launch: launcher.LaunchRequest | None = None,
    ) -> None:
        """Adds an order, if there is a session; else the next one begins with it."""
        if self.session:
            self._last_order += 1
            self._orders.append(agent_protocol.Order(self._last_order, kind, launch_id, launch))
            self.wake()

    def confirm_orders(self, number: int) -> None:
        """Forgets the orders up to a number."""
        if self._orders and self._orders[0].number <= number:
            self._orders = [each for each in self._orders if each.number > number]

    @property
    def num_orders(self) -> int:
        """Number of orders that are not confirmed."""
        return len(self._orders)

    def list_orders(self) -> tuple[agent_protocol.Order, ...]:
        """Returns the orders that are not confirmed."""
        return tuple(self._orders)

    def wake(self) -> None:
        """Calls those who wait for news."""
        for waker in list(self._wakers):
            waker()

    @contextlib.contextmanager
    def waker_registered(self, waker: Callable[[], object]) -> Iterator[None]:
        """Calls `waker`, which must not wait, whenever there may be orders. Takes the lock."""
        with self.lock:
            self._wakers.add(waker)
        try:
            yield
        finally:
            with self.lock:
                self._wakers.discard(waker)
