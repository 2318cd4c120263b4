"""Limits on connections: how many there may be, and which one makes room for another."""

import asyncio
import collections
import dataclasses
import ipaddress
import math
import socket
import struct
import sys
from collections.abc import Callable
from typing import Final, Protocol

if sys.platform != "win32":
    import resource

MOST_CONNECTIONS: Final = 2048
"""Most connections in all, unless it is said how many."""

_MOST_FILES: Final = 65536
_SWEEP_SECS: Final = 1.0
_HEARING_SECS: Final = 1.0
_FULL_SECS: Final = 0.05

_FEW: Final = 500
"""So many connections of trusted clients are looked at once a second."""

_WATCHED_SHARE: Final = 0.2
"""Of more, this part of them."""


@dataclasses.dataclass(frozen=True)
class Limits:
    """Numbers and durations of connections."""

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

    crowded_secs: float = 15.0
    """The same while they are a crowd. Trials that train for minutes connect anew."""

    crowd: int = 1000
    """Connections of trusted clients that are not a crowd yet."""


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


class Counted(Protocol):
    """A connection that is counted, and watched."""

    transport: asyncio.Transport
    loop: asyncio.AbstractEventLoop

    @property
    def is_idle(self) -> bool:
        """True if nobody waits for an answer here."""

    @property
    def is_known(self) -> bool:
        """True if its last request was of somebody who is trusted."""

    def give_up_if_slow(self, now_secs: float) -> None:
        """Ends the connection if its client takes too long."""


class Ledger:
    """The connections of a server, in the order in which they came. Used by one thread."""

    def __init__(self, limits: Limits) -> None:
        """Starts without connections."""
        self.limits = limits
        self._clients: dict[Counted, str] = {}
        self._known: set[Counted] = set()
        self._came_secs: dict[Counted, float] = {}
        self._counts: collections.Counter[str] = collections.Counter()
        self._num_local = 0
        self._is_sweeping = False
        self._unwatched: list[Counted] = []
        self._full_until_secs = 0.0

    def admit(self, connection: Counted, client: str) -> bool:
        """Counts a connection if there is, or can be made, room for it."""
        is_local, now_secs = _is_local(client), connection.loop.time()
        if not is_local and self._counts[client] >= self.limits.per_client:
            has_room = self._evict(lambda other: other == client)
        else:
            has_room = self.has_room(now_secs, is_local=is_local)
        if has_room:
            self._clients[connection] = client
            self._came_secs[connection] = now_secs
            self._counts[client] += 1
            self._num_local += is_local
            if not self._is_sweeping:
                self._is_sweeping = True
                connection.loop.call_later(_SWEEP_SECS, self._sweep, connection.loop)
        return has_room

    def has_room(self, now_secs: float, *, is_local: bool, num_coming: int = 0) -> bool:
        """True if there is, or can be made, room for one more connection.

        Args:
            now_secs: The time of the loop.
            is_local: Whether it is one of a Unix socket.
            num_coming: Others of this kind that are about to be counted.
        """
        limits = self.limits
        if is_local:
            is_full = self._num_local + num_coming >= limits.total - limits.over_network
            return not is_full or self._evict(_is_local)
        if self._count_network() + num_coming < limits.over_network:
            return True
        # Nor are all looked at for each of thousands that come together.
        if now_secs < self._full_until_secs:
            return False
        self._recognise()
        # Thousands may come back after a restart: if each made an end of one that was not heard
        # yet, none would ever be.
        has_room = self._count_network() + num_coming < limits.over_network or self._evict(
            lambda other: not _is_local(other), before_secs=now_secs - _HEARING_SECS
        )
        self._full_until_secs = 0.0 if has_room else now_secs + _FULL_SECS
        return has_room

    def _count_network(self) -> int:
        return len(self._clients) - self._num_local

    def _recognise(self) -> None:
        """Counts those apart whose clients are trusted by now, though not answered yet."""
        for connection in [each for each in self._clients if each.is_known]:
            self.trust(connection)

    def trust(self, connection: Counted) -> None:
        """Counts a connection whose client is trusted apart, if there is room."""
        if connection in self._clients and len(self._known) < self.limits.known:
            self.leave(connection)
            self._known.add(connection)

    @property
    def known_secs(self) -> float:
        """Seconds that connections of trusted clients are kept now."""
        is_crowded = len(self._known) > self.limits.crowd
        return self.limits.crowded_secs if is_crowded else self.limits.known_secs

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
        if not self._unwatched:
            self._unwatched = list(self._known)
        count = max(_FEW, int(_WATCHED_SHARE * len(self._known)))
        watched = self._unwatched[-count:]
        del self._unwatched[-count:]
        self._recognise()
        for connection in (*self._clients, *self._known.intersection(watched)):
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
