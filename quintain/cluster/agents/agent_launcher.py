"""Launcher of trials on machines whose agents call this master, and on its own.

The master connects to nobody: agents ask for orders and send reports (`agent_protocol`), and
`server/routes/agents.py` hands them on to here. Each agent has a lock of its own, so that a
thousand of them do not wait for each other.
"""

import collections
import contextlib
import dataclasses
import logging
import threading
import time
from collections.abc import Callable
from typing import Final, TypeVar

from typing_extensions import override

from quintain import errors
from quintain.cluster.agents import agent_protocol, agent_state
from quintain.master.processes import launcher
from quintain.records.rows import log, trial
from quintain.records.rows import node as node_lib

_MOST_WAITING_LINES: Final = 200_000
"""While more lines wait to be stored, agents keep theirs."""


logger = logging.getLogger(__name__)

NODE_TIMEOUT_SECS: Final = 30.0
"""A machine of which nothing was heard for so long is lost."""

_REMEMBERED_SECS: Final = 3600.0
"""For so long lost machines are shown."""

_CHECK_SECS: Final = 0.5
_STOPPED_SECS: Final = 5.0
"""Between two polls passes less, unless this process was stopped, and could hear nobody."""

_MOST_MEMBERS: Final = 1000
_MOST_ORDERS: Final = 10_000
"""While an agent has not carried out more, it is not told to forget what it should not have."""

T = TypeVar("T")


class AgentLauncher(launcher.Launcher):
    """Starts trials by agents.

    Args:
        local: Starts processes on the machine of the master.
        node_timeout_secs: A machine of which nothing was heard for so long is lost: its processes
            are given up, and ended if it comes back.
        clock: Seconds that only go up.
    """

    def __init__(
        self,
        local: launcher.Launcher,
        *,
        node_timeout_secs: float = NODE_TIMEOUT_SECS,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._local = local
        self._node_timeout_secs = node_timeout_secs
        self._clock = clock
        self._members: dict[str, agent_state.Member] = {}
        self._launches: dict[str, agent_state.RemoteLaunch] = {}
        self._exits: collections.deque[launcher.ProcessExit] = collections.deque()
        self._lines = LineQueue()
        self._usage: collections.deque[tuple[str, dict[str, float]]] = collections.deque()
        self._last_poll_secs = self._last_check_secs = clock()

    # What the scheduler asks.

    @override
    def start(self, launch: launcher.LaunchRequest) -> trial.ProcessIdentity | None:
        if launch.node == node_lib.OWN:
            return self._local.start(launch)
        member = self._get_member(launch.node)
        remote = agent_state.RemoteLaunch(launch.launch_id, launch.trial_id, member, launch)
        with member.lock:
            self._launches[launch.launch_id] = member.launches[launch.launch_id] = remote
            if member.session:
                member.order(agent_protocol.OrderKind.START, launch.launch_id, launch)
            else:
                self._end(remote, f"Machine {member.name} is gone.")
        return None

    @override
    def adopt(
        self,
        launch_id: str,
        trial_id: int,
        identity: trial.ProcessIdentity | None,
        scratch_dir: str,
        node: str = node_lib.OWN,
    ) -> bool:
        """Takes over a process; one of another machine as soon as its agent calls."""
        if node == node_lib.OWN:
            return self._local.adopt(launch_id, trial_id, identity, scratch_dir)
        member = self._get_member(node)
        with member.lock:
            remote = agent_state.RemoteLaunch(launch_id, trial_id, member)
            self._launches[launch_id] = member.launches[launch_id] = remote
        return True

    @override
    def kill(self, launch_id: str) -> None:
        remote = self._launches.get(launch_id)
        if remote is None:
            self._local.kill(launch_id)
            return
        with remote.member.lock:
            if not remote.is_killed and not remote.is_over:
                remote.is_killed = True
                remote.member.order(agent_protocol.OrderKind.KILL, launch_id)

    @override
    def forget(self, launch_id: str) -> None:
        remote = self._launches.pop(launch_id, None)
        if remote is None:
            self._local.forget(launch_id)
            return
        with remote.member.lock:
            remote.member.launches.pop(launch_id, None)
            remote.member.order(agent_protocol.OrderKind.DROP, launch_id)

    @override
    def poll(self) -> list[launcher.ProcessExit]:
        now_secs = self._clock()
        stopped_secs, self._last_poll_secs = now_secs - self._last_poll_secs, now_secs
        if stopped_secs > _STOPPED_SECS:
            for member in list(self._members.values()):
                with member.lock:
                    member.heard_secs += stopped_secs
        elif now_secs - self._last_check_secs >= _CHECK_SECS:
            self._last_check_secs = now_secs
            for member in list(self._members.values()):
                self._check(member, now_secs)
        return [*self._local.poll(), *_take_all(self._exits)]

    @override
    def read_logs(self) -> list[log.LogRow]:
        return [*self._local.read_logs(), *self._lines.read()]

    @override
    def read_usage(self) -> dict[str, dict[str, float]]:
        return dict(_take_all(self._usage))

    @override
    def list_nodes(self) -> list[node_lib.Node]:
        """Returns the machines that have called."""
        found = [member.to_node() for member in list(self._members.values())]
        return [node for node in found if node is not None]

    @override
    def find_slowness(self) -> str:
        return self._local.find_slowness()

    @override
    def close(self, *, kill: bool) -> None:
        """Ends the launcher. Processes of other machines go on, for the next master."""
        self.release()
        self._local.close(kill=kill)

    # What agents ask.

    def register(self, hello: agent_protocol.Hello) -> agent_protocol.Welcome:
        """Begins a session of an agent.

        Raises:
            ConfigError: If it is of another version, or something is wrong with what it says.
            StateError: If another agent of this name is there.
        """
        agent_protocol.check_versions(hello)
        agent_protocol.check_hello(hello)
        if len(self._members) >= _MOST_MEMBERS and hello.name not in self._members:
            raise errors.StateError(f"There are {_MOST_MEMBERS} agents, which is all there can be.")
        member, now_secs = self._get_member(hello.name), self._clock()
        with member.lock:
            member.check_rival(hello, now_secs, self._node_timeout_secs)
            is_new = not member.session
            member.begin(hello, now_secs)
            member.state = node_lib.NodeState.ACTIVE
            member.set_own_drain(hello.draining)
            for remote in member.compare_launches():
                self._end(remote, f"The agent of machine {hello.name} does not have the process.")
            offsets = member.list_offsets()
        logger.log(
            logging.INFO if is_new else logging.DEBUG,
            "Machine %s is there with %d slots.",
            hello.name,
            len(hello.slots),
        )
        return agent_protocol.Welcome(
            session=member.session,
            **agent_state.find_paces(len(self._members), self._node_timeout_secs),
            offsets=offsets,
        )

    def find_orders(
        self, name: str, session: str, *, after: int, kept: int
    ) -> agent_protocol.Orders | None:
        """Returns what an agent is to do, or None if nothing is new; see `AgentClient.find_orders`.

        Raises:
            GoneError: If the session has ended.
        """
        member = self._find_member(name)
        with member.lock:
            member.check_session(session, self._clock())
            member.confirm_orders(after)
            orders = member.list_orders()
            if not orders and member.kept <= kept:
                return None
            return agent_protocol.Orders(orders, member.kept)

    def waker_registered(
        self, name: str, waker: Callable[[], object]
    ) -> contextlib.AbstractContextManager[None]:
        """Calls `waker`, which must not wait, whenever there may be orders for an agent.

        Raises:
            GoneError: If there is no such agent.
        """
        return self._find_member(name).waker_registered(waker)

    def release(self) -> None:
        """Wakes all who wait for orders."""
        for member in list(self._members.values()):
            with member.lock:
                member.wake()

    def receive(self, name: str, session: str, report: agent_protocol.Report) -> None:
        """Takes what an agent tells.

        Raises:
            GoneError: If the session has ended.
            StoreError: If too many lines wait to be stored; the report is to be sent again.
        """
        if report.lines:
            self._lines.check_room()
        member = self._find_member(name)
        with member.lock:
            member.check_session(session, self._clock())
            if report.number <= member.received:
                return
            member.received = report.number
            if report.draining != member.own_drain:
                member.set_own_drain(report.draining)
            self._take_lines(member, report)
            for launch_id in report.started:
                if (remote := member.launches.get(launch_id)) is not None:
                    remote.order = None
            for launch_id, usage in report.usage.items():
                if launch_id in member.launches:
                    self._usage.append((launch_id, dict(usage)))
            for ended in report.exits:
                self._take_exit(member, ended)

    def leave(self, name: str, session: str) -> None:
        """Forgets an agent that ends.

        Raises:
            GoneError: If the session has ended.
        """
        member = self._find_member(name)
        with member.lock:
            member.check_session(session, self._clock())
            self._give_up(member, f"Machine {name} has left.")
            member.hello = None
            self._members.pop(name, None)
        logger.info("Machine %s has left.", name)

    # What is known of machines by other ways.

    def report_lost(self, name: str, reason: str) -> None:
        """Gives up a machine at once.

        If its agent calls nevertheless, it begins anew, and its processes are ended.

        Args:
            name: The machine; one that is not known is no error.
            reason: How that is known.
        """
        member = self._members.get(name)
        if member is None:
            return
        with member.lock:
            if member.state is not node_lib.NodeState.LOST:
                member.state, member.reason = node_lib.NodeState.LOST, reason
                self._give_up(member, f"Machine {name} is gone: {reason}")
                logger.warning("Machine %s is gone: %s", name, reason)

    def drain(self, name: str, reason: str) -> None:
        """Starts nothing on a machine any more, and lets its trials save themselves.

        Args:
            name: The machine; one that is not known is no error.
            reason: Why; an empty text takes it back.
        """
        member = self._members.get(name)
        if member is not None:
            with member.lock:
                member.told_drain = reason
                member.set_state()

    def _get_member(self, name: str) -> agent_state.Member:
        return self._members.setdefault(name, agent_state.Member(name, self._clock()))

    def _find_member(self, name: str) -> agent_state.Member:
        member = self._members.get(name)
        if member is None:
            raise errors.GoneError(f"There is no agent {name[:200]!r}; register again.")
        return member

    def _take_lines(self, member: agent_state.Member, report: agent_protocol.Report) -> None:
        rows = [
            log.LogRow(remote.trial_id, time_secs, source, text)
            for launch_id, time_secs, source, text in report.lines
            if (remote := member.launches.get(launch_id)) is not None and not remote.is_over
        ]
        for launch_id, offset in report.offsets.items():
            if (remote := member.launches.get(launch_id)) is not None:
                remote.offset = offset
        if report.offsets:
            self._lines.add(member, report.number, rows)

    def _take_exit(self, member: agent_state.Member, ended: agent_protocol.Exit) -> None:
        remote = member.launches.get(ended.launch_id)
        if remote is None:
            # It tells of it again as long as it has it.
            if member.num_orders < _MOST_ORDERS:
                member.order(agent_protocol.OrderKind.DROP, ended.launch_id)
        elif not remote.is_over:
            remote.is_over = True
            self._exits.append(
                launcher.ProcessExit(trial_id=remote.trial_id, **dataclasses.asdict(ended))
            )

    def _end(self, remote: agent_state.RemoteLaunch, reason: str) -> None:
        remote.is_over = True
        self._exits.append(
            launcher.ProcessExit(remote.launch_id, remote.trial_id, None, None, reason=reason)
        )

    def _give_up(self, member: agent_state.Member, reason: str) -> None:
        """Ends the session, and reports the exits of all processes."""
        for remote in member.launches.values():
            if not remote.is_over:
                self._end(remote, reason)
        member.end()

    def _check(self, member: agent_state.Member, now_secs: float) -> None:
        """Gives up a machine that is silent; forgets one that has been lost for long."""
        silent_secs = now_secs - member.heard_secs
        if silent_secs <= self._node_timeout_secs:
            return
        is_lost = member.state is node_lib.NodeState.LOST
        if not is_lost:
            self.report_lost(member.name, f"nothing was heard of it for {silent_secs:.0f} s.")
        elif silent_secs > _REMEMBERED_SECS:
            with member.lock:
                if not member.launches and not member.session:
                    self._members.pop(member.name, None)


def _take_all(waiting: collections.deque[T]) -> list[T]:
    """Takes what is there now; others may append meanwhile."""
    return [waiting.popleft() for _ in range(len(waiting))]


@dataclasses.dataclass(frozen=True)
class _Batch:
    """Lines of one report."""

    member: agent_state.Member
    session: str
    number: int
    rows: list[log.LogRow]


class LineQueue:
    """Lines that wait to be stored. `read` is called by one thread only."""

    def __init__(self) -> None:
        self._waiting: collections.deque[_Batch] = collections.deque()
        self._unconfirmed: list[_Batch] = []
        self._lock = threading.Lock()
        self._num_waiting = 0

    def check_room(self) -> None:
        """Raises `StoreError` if too many lines wait; the report is to be sent again."""
        if self._num_waiting > _MOST_WAITING_LINES:
            raise errors.StoreError("Too many lines of logs wait to be stored; try again later.")

    def add(self, member: agent_state.Member, number: int, rows: list[log.LogRow]) -> None:
        """Adds the lines of a report, the lock of whose agent is held.

        Also one without lines counts as kept only when those before it are stored.
        """
        with self._lock:
            self._num_waiting += len(rows)
            self._waiting.append(_Batch(member, member.session, number, rows))

    def read(self) -> list[log.LogRow]:
        """Returns the lines that were added since the last call, whose lines are stored now."""
        for each in self._unconfirmed:
            each.member.note_kept(each.session, each.number)
        with self._lock:
            self._unconfirmed = list(self._waiting)
            self._waiting.clear()
            self._num_waiting = 0
        return [row for each in self._unconfirmed for row in each.rows]
