"""What the master knows of one agent: its session, its orders, and the launches it has."""

import collections
import contextlib
import dataclasses
import secrets
import threading
from collections.abc import Callable, Iterator

from quintain import errors
from quintain.cluster import agent_protocol
from quintain.records import node as node_lib


@dataclasses.dataclass
class RemoteLaunch:
    """A launch on a machine of an agent."""

    launch_id: str
    """Name of the launch."""

    trial_id: int
    """The trial."""

    member: "Member"
    """The agent."""

    order: agent_protocol.NewLaunch | None = None
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
        shown: What the machine was shown by last, and how.
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
        self.shown: tuple[object, node_lib.Node] | None = None
        self._orders: collections.deque[agent_protocol.Order] = collections.deque()
        self._last_order = 0
        self._wakers: set[Callable[[], object]] = set()

    def begin(self, hello: agent_protocol.Hello, now_secs: float) -> None:
        """Begins a session of an agent that has called."""
        self.hello, self.heard_secs = hello, now_secs
        self.session = secrets.token_hex(8)
        self.kept = self.received = self._last_order = 0
        self._orders.clear()
        self.wake()

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
        launch: agent_protocol.NewLaunch | None = None,
    ) -> None:
        """Adds an order, if there is a session; else the next one begins with it."""
        if self.session:
            self._last_order += 1
            self._orders.append(agent_protocol.Order(self._last_order, kind, launch_id, launch))
            self.wake()

    def confirm_orders(self, number: int) -> None:
        """Forgets the orders up to a number."""
        while self._orders and self._orders[0].number <= number:
            self._orders.popleft()

    def list_orders(self) -> tuple[agent_protocol.Order, ...]:
        """Returns the orders that are not confirmed."""
        return tuple(self._orders)

    def wake(self) -> None:
        """Calls those who wait for news."""
        for waker in list(self._wakers):
            waker()

    @contextlib.contextmanager
    def watching(self, waker: Callable[[], object]) -> Iterator[None]:
        """Calls `waker`, which must not wait, whenever there may be orders. Takes the lock."""
        with self.lock:
            self._wakers.add(waker)
        try:
            yield
        finally:
            with self.lock:
                self._wakers.discard(waker)
