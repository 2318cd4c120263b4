"""Limits on connections: how many there may be, and how long one may keep the server waiting.

uvicorn serves whoever connects for as long as they like. Here a connection is given up when the
head or the body of a request, or the reading of an answer, takes too long. And there is a limit of
connections, for each client and in all, well below the number of files that the process may open:
where it is reached, the one that was idle for longest makes room for the new one. Answers that
take long, such as requests for work that wait, are not touched by any of this. Connections of
clients that are trusted, such as the thousands of a cluster, are counted apart: they may have all
files that are left.
"""

import asyncio
import collections
import dataclasses
import functools
import ipaddress
import logging
import math
import socket
import struct
import sys
from collections.abc import Callable
from typing import Any, Final, Protocol, cast

import h11
import uvicorn
from typing_extensions import override
from uvicorn.protocols.http import h11_impl

from quintain.web import quiet_logs

if sys.platform != "win32":
    import resource

KNOWN: Final = "is_known_client"
"""Name in the state of a request (`scope["state"]`) that is set once its sender is trusted."""

MOST_CONNECTIONS: Final = 2048
"""Most connections in all, unless it is said how many."""

_MAX_HEAD_BYTES: Final = 32 * 1024
_BACKLOG: Final = 128
"""Connections that are taken at once, before any of them is counted."""

_MOST_FILES: Final = 65536
_SWEEP_SECS: Final = 1.0
_FAREWELL_SECS: Final = 1.0
_HEARING_SECS: Final = 1.0
_TLS_HELLO: Final = b"\x16\x03"

logger = logging.getLogger(__name__)


@dataclasses.dataclass(frozen=True)
class Limits:
    """How many connections there may be, and how long they may take."""

    total: int
    """Connections in all."""

    over_network: int
    """Connections that are not of a Unix socket. Users of the machine's own sockets, whom the
    system knows, are not kept out by anybody else."""

    per_client: int
    """Connections of one address; users of a Unix socket may have all that there are."""

    known: int = 0
    """Further connections of clients that are trusted. Beyond them these count like others."""

    head_secs: float = 10.0
    """Seconds from the first byte of a request, or from the start, to the end of its head."""

    body_secs: float = 60.0
    """Seconds that the body of a request may take."""

    stall_secs: float = 60.0
    """Seconds after which a client that reads nothing of its answer is given up."""

    stranger_secs: float = 5.0
    """Seconds that a connection is kept after a request of somebody who is not trusted."""

    known_secs: float = 600.0
    """Seconds that a connection is kept after a request of somebody who is."""


def find_limits(*, network_share: float, client_share: float) -> Limits:
    """Returns limits that leave files to open for everything else, and raises the soft limit.

    Args:
        network_share: Part of all connections that may come over the network.
        client_share: Part of these that one address may have.
    """
    num_files = 2 * MOST_CONNECTIONS
    if sys.platform != "win32":
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        most = _MOST_FILES if hard == resource.RLIM_INFINITY else min(hard, _MOST_FILES)
        if soft != resource.RLIM_INFINITY and soft < most:
            resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
            soft = most
        num_files = _MOST_FILES if soft == resource.RLIM_INFINITY else soft
    total = min(MOST_CONNECTIONS, max(num_files // 2, 8))
    over_network = max(int(total * network_share), 4)
    return Limits(
        total,
        over_network,
        per_client=max(int(over_network * client_share), 2),
        known=max(num_files - 2 * total, 0),
    )


def build_config(app: Any, limits: Limits, **settings: Any) -> uvicorn.Config:
    """Returns the settings of a server that keeps to limits.

    Args:
        app: What answers.
        limits: The limits.
        **settings: Further settings of uvicorn.
    """
    quiet_logs.limit("uvicorn.error")
    quiet_logs.leave_out("uvicorn.error", "Invalid HTTP request received.")
    quiet_logs.limit(__name__)
    quiet_logs.limit("asyncio")
    protocol = functools.partial(HttpProtocol, ledger=_Ledger(limits))
    return uvicorn.Config(
        app,
        http=cast(Any, protocol),
        ws="none",
        log_config=None,
        access_log=False,
        backlog=_BACKLOG,
        h11_max_incomplete_event_size=_MAX_HEAD_BYTES,
        **settings,
    )


class HttpProtocol(h11_impl.H11Protocol):
    """A connection that is counted, and watched."""

    def __init__(self, *args: Any, ledger: "_Ledger", **settings: Any) -> None:
        super().__init__(*args, **settings)
        self.ledger = ledger
        self._early: list[bytes] = []
        self._is_lost = self._speaks_tls = False
        self._num_resumes = 0
        self._awaited: Any = None
        self._since_secs = 0.0
        self._written: Any = None
        self._written_at_secs = 0.0

    @override
    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._since_secs = self.loop.time()
        if not self.ledger.admit(self, find_client(transport)):
            transport.abort()

    def begin(self, transport: asyncio.Transport) -> None:
        """Does what `connection_made` does, where data may have come, or the end, before it."""
        if not self._is_lost:
            self.connection_made(transport)
            for piece in self._early:
                self.data_received(piece)
        self._early.clear()

    @override
    def data_received(self, data: bytes) -> None:
        if self.transport is None:
            self._early.append(data)
        else:
            is_first = self.cycle is None and not self.conn.trailing_data[0]
            self._speaks_tls |= is_first and data.startswith(_TLS_HELLO)
            super().data_received(data)

    @override
    def connection_lost(self, exc: Exception | None) -> None:
        self._is_lost = True
        self.ledger.leave(self)
        if self.transport is not None:
            super().connection_lost(exc)

    @override
    def resume_writing(self) -> None:
        self._num_resumes += 1
        super().resume_writing()

    @override
    def shutdown(self) -> None:
        super().shutdown()
        # Who does not read keeps an answer that goes on for ever from its end.
        self.loop.call_later(_FAREWELL_SECS, self._give_up_if_stuck)

    @override
    def send_400_response(self, msg: str) -> None:
        """Answers what is no request, or no body of the one that is worked on: once."""
        peer = describe_peer(self.transport)
        if self._speaks_tls:
            logger.warning("%s speaks TLS, and here is plain text: ask by http://.", peer)
        else:
            # What was sent, which may be secret, follows after a colon.
            fault = str(sys.exception()).partition(":")[0]
            logger.warning("%s has sent what is no HTTP request (%s).", peer, fault)
        if self.cycle is not None and not self.cycle.response_complete:
            # Nobody listens to another answer.
            self.cycle.disconnected = True
            self.cycle.message_event.set()
        if self.conn.our_state in (h11.IDLE, h11.SEND_RESPONSE):
            super().send_400_response(msg)
        else:
            self.transport.close()

    def _give_up_if_stuck(self) -> None:
        if self.transport.get_write_buffer_size():
            self.transport.abort()

    @override
    def on_response_complete(self) -> None:
        limits = self.ledger.limits
        self.timeout_keep_alive = cast(
            int, limits.known_secs if self.is_known else limits.stranger_secs
        )
        if self.is_known:
            self.ledger.trust(self)
        super().on_response_complete()

    @property
    def is_idle(self) -> bool:
        """Whether nobody waits for an answer here."""
        is_asked = self.cycle is not None and not self.cycle.response_complete
        return not is_asked or self.conn.their_state is h11.SEND_BODY

    @property
    def is_known(self) -> bool:
        """Whether its last request was of somebody who is trusted."""
        return self.scope is not None and bool(self.scope["state"].get(KNOWN, False))

    def give_up_if_slow(self, now_secs: float) -> None:
        """Ends the connection if its client takes too long."""
        limits = self.ledger.limits
        awaited = (self.conn.their_state, self.cycle) if self._owes_request() else None
        if awaited != self._awaited:
            self._awaited, self._since_secs = awaited, now_secs
        is_body = self.conn.their_state is h11.SEND_BODY
        allowed_secs = limits.body_secs if is_body else limits.head_secs
        is_slow = awaited is not None and now_secs - self._since_secs > allowed_secs
        num_waiting = self.transport.get_write_buffer_size()
        written = (num_waiting, self._num_resumes) if num_waiting else None
        if written != self._written:
            self._written, self._written_at_secs = written, now_secs
        is_stalled = written is not None and now_secs - self._written_at_secs > limits.stall_secs
        if is_slow or is_stalled:
            self.transport.abort()

    def _owes_request(self) -> bool:
        """Whether a request was begun, or is the first one, and is not complete."""
        if self.conn.their_state is h11.SEND_BODY:
            return True
        is_first = self.cycle is None
        return self.conn.their_state is h11.IDLE and (is_first or bool(self.conn.trailing_data[0]))


class Counted(Protocol):
    """A connection that is counted, and watched."""

    transport: asyncio.Transport
    loop: asyncio.AbstractEventLoop

    @property
    def is_idle(self) -> bool:
        """Whether nobody waits for an answer here."""

    @property
    def is_known(self) -> bool:
        """Whether its last request was of somebody who is trusted."""

    def give_up_if_slow(self, now_secs: float) -> None:
        """Ends the connection if its client takes too long."""


class _Ledger:
    """The connections of a server, in the order in which they came. Used by one thread."""

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self._clients: dict[Counted, str] = {}
        self._known: set[Counted] = set()
        self._came_secs: dict[Counted, float] = {}
        self._counts: collections.Counter[str] = collections.Counter()
        self._num_local = 0
        self._is_sweeping = False

    def admit(self, connection: Counted, client: str) -> bool:
        """Counts a connection if there is, or can be made, room for it."""
        is_local, now_secs = _is_local(client), connection.loop.time()
        num_network = len(self._clients) - self._num_local
        if not is_local and self._counts[client] >= self.limits.per_client:
            has_room = self._evict(lambda other: other == client)
        elif not is_local and num_network >= self.limits.over_network:
            # Thousands may come back together after a restart: if each made an end of one that was
            # not heard yet, none would ever be.
            has_room = self._evict(
                lambda other: not _is_local(other), before_secs=now_secs - _HEARING_SECS
            )
        elif self._num_local >= self.limits.total - self.limits.over_network and is_local:
            has_room = self._evict(_is_local)
        else:
            has_room = True
        if has_room:
            self._clients[connection] = client
            self._came_secs[connection] = now_secs
            self._counts[client] += 1
            self._num_local += is_local
            if not self._is_sweeping:
                self._is_sweeping = True
                connection.loop.call_later(_SWEEP_SECS, self._sweep, connection.loop)
        return has_room

    def trust(self, connection: Counted) -> None:
        """Counts a connection whose client is trusted apart, if there is room."""
        if connection in self._clients and len(self._known) < self.limits.known:
            self.leave(connection)
            self._known.add(connection)

    def leave(self, connection: Counted) -> None:
        """Forgets a connection, if it was counted."""
        self._known.discard(connection)
        self._came_secs.pop(connection, None)
        client = self._clients.pop(connection, None)
        if client is not None:
            self._num_local -= _is_local(client)
            self._counts[client] -= 1
            if not self._counts[client]:
                del self._counts[client]

    def _evict(self, matches: Callable[[str], bool], *, before_secs: float = math.inf) -> bool:
        """Ends the oldest idle connection of some clients; returns False if there is none.

        Strangers go first: who was trusted may be about to ask again.

        Args:
            matches: Whether a client is one of them.
            before_secs: When the connection has to have come at the latest.
        """
        chosen = None
        for one, client in self._clients.items():
            if self._came_secs[one] >= before_secs:
                break
            if matches(client) and one.is_idle and (chosen is None or not one.is_known):
                chosen = one
                if not one.is_known:
                    break
        if chosen is None:
            return False
        self.leave(chosen)
        chosen.transport.abort()
        return True

    def _sweep(self, loop: asyncio.AbstractEventLoop) -> None:
        now_secs = loop.time()
        for connection in (*self._clients, *self._known):
            connection.give_up_if_slow(now_secs)
        self._is_sweeping = bool(self._clients or self._known)
        if self._is_sweeping:
            loop.call_later(_SWEEP_SECS, self._sweep, loop)


def _is_local(client: str) -> bool:
    return client.startswith("user ")


def find_client(transport: asyncio.Transport) -> str:
    """Returns what the connections of one client have in common: its address, or its user.

    Of IPv6 it is the network, in which a machine may take as many addresses as it likes.
    """
    connected = transport.get_extra_info("socket")
    if connected.family == socket.AF_UNIX:
        if not hasattr(socket, "SO_PEERCRED"):
            return "user of the socket"
        found = connected.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
        return f"user {struct.unpack('3i', found)[1]}"
    peer = transport.get_extra_info("peername")
    if peer and connected.family == socket.AF_INET6:
        address = ipaddress.IPv6Address(peer[0].partition("%")[0])
        return str(address.ipv4_mapped or ipaddress.ip_network((address, 64), strict=False))
    return str(peer[0]) if peer else "unknown"


def describe_peer(transport: asyncio.Transport) -> str:
    """Returns the address and the port that a connection comes from, or its user."""
    peer = transport.get_extra_info("peername")
    return f"{peer[0]}:{peer[1]}" if isinstance(peer, tuple) else find_client(transport)
