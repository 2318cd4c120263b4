"""Starts trials on machines whose agents call this master, and on its own.

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
from quintain.cluster import agent_protocol, members
from quintain.records import log, trial
from quintain.records import node as node_lib
from quintain.scheduler import launcher, usage_meter

logger = logging.getLogger(__name__)

NODE_TIMEOUT_SECS: Final = 30.0
"""A machine of which nothing was heard for so long is lost."""

_REMEMBERED_SECS: Final = 3600.0
"""For so long lost machines are shown."""

_CHECK_SECS: Final = 0.5
_STOPPED_SECS: Final = 5.0
"""Between two polls passes less, unless this process was stopped, and could hear nobody."""

_MOST_MEMBERS: Final = 10_000
_MOST_WAITING_LINES: Final = 200_000
"""While more lines wait to be stored, agents keep theirs."""

_AGENTS_FOR_A_SECOND: Final = 500
"""So many agents look at their logs once a second; fewer more often, more of them less often."""

_AGENTS_FOR_A_SAMPLE: Final = 10
"""So many agents tell once a second what their processes use."""

_LEAST_LOG_SECS: Final = 0.2

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
        self._members: dict[str, members.Member] = {}
        self._launches: dict[str, members.RemoteLaunch] = {}
        self._exits: collections.deque[launcher.ProcessExit] = collections.deque()
        self._lines: collections.deque[_Lines] = collections.deque()
        self._unconfirmed: list[_Lines] = []
        self._usage: collections.deque[tuple[str, dict[str, float]]] = collections.deque()
        self._count_lock = threading.Lock()
        self._num_waiting = 0
        self._nodes: list[node_lib.Node] = []
        self._change = self._shown_change = object()
        self._last_poll_secs = self._last_check_secs = clock()

    # What the scheduler asks.

    @override
    def start(self, launch: launcher.Launch) -> trial.ProcessIdentity | None:
        if launch.node == node_lib.OWN:
            return self._local.start(launch)
        member = self._get_member(launch.node)
        order = agent_protocol.NewLaunch(
            trial_id=launch.trial_id,
            experiment_id=launch.experiment_id,
            slots=launch.slots,
            environment=launch.environment,
            model_dir=launch.model_dir,
            rank=launch.rank,
            size=launch.size,
        )
        remote = members.RemoteLaunch(launch.launch_id, launch.trial_id, member, order)
        with member.lock:
            self._launches[launch.launch_id] = member.launches[launch.launch_id] = remote
            if member.session:
                member.order(agent_protocol.OrderKind.START, launch.launch_id, order)
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
            remote = members.RemoteLaunch(launch_id, trial_id, member)
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
        for each in self._unconfirmed:
            with each.member.lock:
                if each.session == each.member.session:
                    each.member.kept = each.number
                    each.member.wake()
        self._unconfirmed = _take_all(self._lines)
        self._count(-sum(len(each.rows) for each in self._unconfirmed))
        rows = self._local.read_logs()
        for each in self._unconfirmed:
            rows += each.rows
        return rows

    @override
    def read_usage(self) -> dict[str, dict[str, float]]:
        return dict(_take_all(self._usage))

    @override
    def list_nodes(self) -> list[node_lib.Node]:
        """Returns the machines; the same list as before if nothing has changed."""
        change = self._change
        if change is not self._shown_change:
            found = [_to_node(member) for member in list(self._members.values())]
            self._nodes = [each for each in found if each is not None]
            self._shown_change = change
        return self._nodes

    @override
    def find_slowness(self) -> str:
        return self._local.find_slowness()

    @override
    def close(self, *, kill: bool) -> None:
        """Ends the launcher.

        Processes of other machines go on: the next master knows them, or has their agents end them.
        """
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
            self._check_rival(member, hello, now_secs)
            is_new = not member.session
            member.begin(hello, now_secs)
            member.state = node_lib.NodeState.ACTIVE
            self._set_state(member, hello.draining)
            offsets = self._compare_launches(member, hello)
        logger.log(
            logging.INFO if is_new else logging.DEBUG,
            "Machine %s is there with %d slots.",
            hello.name,
            len(hello.slots),
        )
        return agent_protocol.Welcome(
            session=member.session,
            wait_secs=min(self._node_timeout_secs / 3.0, agent_protocol.MAX_WAIT_SECS),
            log_secs=max(_LEAST_LOG_SECS, len(self._members) / _AGENTS_FOR_A_SECOND),
            usage_secs=max(usage_meter.SAMPLE_SECS, len(self._members) / _AGENTS_FOR_A_SAMPLE),
            offsets=offsets,
        )

    def find_orders(
        self, name: str, session: str, *, after: int, kept: int
    ) -> agent_protocol.Orders | None:
        """Returns what an agent is to do, or None if there is nothing new.

        Args:
            name: The agent.
            session: Its session.
            after: Orders up to this number are carried out.
            kept: What it knows of kept reports.

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

    def watching(
        self, name: str, waker: Callable[[], object]
    ) -> contextlib.AbstractContextManager[None]:
        """Calls `waker`, which must not wait, whenever there may be orders for an agent.

        Raises:
            GoneError: If there is no such agent.
        """
        return self._find_member(name).watching(waker)

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
        if report.lines and self._num_waiting > _MOST_WAITING_LINES:
            raise errors.StoreError("Too many lines of logs wait to be stored; try again later.")
        member = self._find_member(name)
        with member.lock:
            member.check_session(session, self._clock())
            if report.number <= member.received:
                return
            member.received = report.number
            if report.draining != member.own_drain:
                self._set_state(member, report.draining)
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
        self._change = object()
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
        self._change = object()

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
            self._change = object()

    def _get_member(self, name: str) -> members.Member:
        return self._members.setdefault(name, members.Member(name, self._clock()))

    def _find_member(self, name: str) -> members.Member:
        member = self._members.get(name)
        if member is None:
            raise errors.GoneError(f"There is no agent {name[:200]!r}; register again.")
        return member

    def _check_rival(
        self, member: members.Member, hello: agent_protocol.Hello, now_secs: float
    ) -> None:
        """Refuses an agent whose name is another's that is there."""
        former, silent_secs = member.hello, now_secs - member.heard_secs
        if not member.session or former is None or silent_secs > self._node_timeout_secs:
            return
        if (former.agent_id, former.place) != (hello.agent_id, hello.place):
            raise errors.StateError(
                f"Another agent is called {member.name!r}; it was heard {silent_secs:.0f} s ago. "
                "Give this one another name (--name), and a directory of its own, or wait until "
                f"{self._node_timeout_secs:g} s after that one has ended."
            )

    def _compare_launches(
        self, member: members.Member, hello: agent_protocol.Hello
    ) -> dict[str, int]:
        """Orders what differs between what the agent has and what is known of it."""
        theirs = set(hello.launches)
        for launch_id in hello.launches:
            if launch_id not in member.launches:
                member.order(agent_protocol.OrderKind.DROP, launch_id)
        for remote in member.launches.values():
            if remote.is_over:
                continue
            if remote.launch_id in theirs:
                remote.order = None
                if remote.is_killed:
                    member.order(agent_protocol.OrderKind.KILL, remote.launch_id)
            elif remote.order is not None and not remote.is_killed:
                member.order(agent_protocol.OrderKind.START, remote.launch_id, remote.order)
            else:
                self._end(remote, f"The agent of machine {member.name} does not have the process.")
        return {
            remote.launch_id: remote.offset
            for remote in member.launches.values()
            if remote.offset is not None and remote.launch_id in theirs
        }

    def _take_lines(self, member: members.Member, report: agent_protocol.Report) -> None:
        rows = [
            log.LogRow(remote.trial_id, time_secs, source, text)
            for launch_id, time_secs, source, text in report.lines
            if (remote := member.launches.get(launch_id)) is not None and not remote.is_over
        ]
        for launch_id, offset in report.offsets.items():
            if (remote := member.launches.get(launch_id)) is not None:
                remote.offset = offset
        self._count(len(rows))
        # Also without rows: what is before it must have been stored when it counts as kept.
        if report.lines:
            self._lines.append(_Lines(member, member.session, report.number, rows))

    def _take_exit(self, member: members.Member, ended: agent_protocol.Exit) -> None:
        remote = member.launches.get(ended.launch_id)
        if remote is None:
            member.order(agent_protocol.OrderKind.DROP, ended.launch_id)
        elif not remote.is_over:
            remote.is_over = True
            self._exits.append(
                launcher.ProcessExit(trial_id=remote.trial_id, **dataclasses.asdict(ended))
            )

    def _end(self, remote: members.RemoteLaunch, reason: str) -> None:
        remote.is_over = True
        self._exits.append(
            launcher.ProcessExit(remote.launch_id, remote.trial_id, None, None, reason=reason)
        )

    def _give_up(self, member: members.Member, reason: str) -> None:
        """Ends the session, and reports the exits of all processes."""
        for remote in member.launches.values():
            if not remote.is_over:
                self._end(remote, reason)
        member.end()

    def _count(self, num_lines: int) -> None:
        with self._count_lock:
            self._num_waiting += num_lines

    def _set_state(self, member: members.Member, own_drain: str) -> None:
        """Notes whether the agent itself says that it is about to leave."""
        member.own_drain = own_drain
        member.set_state()
        self._change = object()

    def _check(self, member: members.Member, now_secs: float) -> None:
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
                    self._change = object()


@dataclasses.dataclass(frozen=True)
class _Lines:
    """Lines of one report."""

    member: members.Member
    session: str
    number: int
    rows: list[log.LogRow]


def _take_all(waiting: collections.deque[T]) -> list[T]:
    """Takes what is there now; others may append meanwhile."""
    return [waiting.popleft() for _ in range(len(waiting))]


def _to_node(member: members.Member) -> node_lib.Node | None:
    """Returns the machine of an agent, or None if it has not called yet.

    It is the same object as long as it is equal: whoever compares thousands need not look into it.
    """
    with member.lock:
        hello = member.hello
        if hello is None:
            return None
        key = (hello.slots, hello.labels, member.state, member.reason)
        if member.shown is None or member.shown[0] != key:
            node = node_lib.Node(
                name=member.name,
                slots=tuple(dataclasses.replace(each, node=member.name) for each in hello.slots),
                labels=dict(hello.labels),
                state=member.state,
                reason=member.reason,
            )
            member.shown = (key, node)
        return member.shown[1]
