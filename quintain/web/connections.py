"""Limits on connections: how many there may be, and how long a client may keep one waiting.

uvicorn closes a connection that is idle after a request, and no other one. Here a `Connection`
stands between the transport and uvicorn's protocol: it ends where a head, a body, or the reading of
an answer takes too long, and where there are as many connections as may be, an idle one makes room
for the new one. TLS is agreed on behind it, so that a connection counts from its first byte.
"""

import asyncio
import contextlib
import dataclasses
import functools
import logging
import resource
import socket
import ssl
from typing import Any, Final, cast

import h11
import uvicorn
from typing_extensions import override
from uvicorn.protocols.http import h11_impl

BACKLOG: Final = 512
"""Connections that wait with the system, and that are taken at once, before any is counted."""

KNOWN: Final = "is_known_client"
"""Name in the state of a request (`scope["state"]`) that is set once its sender is trusted."""

CONNECTION: Final = "connection"
"""Name in the state of a request: its `Connection`."""

_FAREWELL_SECS: Final = 1.0
_MAX_CONNECTIONS: Final = 4096
_MAX_FILES: Final = 65536
_MAX_HEAD_BYTES: Final = 32 * 1024
_KNOWN_SECS: Final = 600
"""Idle seconds after which uvicorn closes a connection. Strangers' end earlier."""


@dataclasses.dataclass(frozen=True)
class Limits:
    """Limits on the connections of a server."""

    total: int
    """Most connections."""

    head_secs: float = 10.0
    """Seconds until the head of a request is complete: from the start of the connection, from the
    end of a stranger's last request, or from the first byte that follows a trusted client's."""

    body_secs: float = 60.0
    """Seconds that the body of a request may take."""

    stall_secs: float = 60.0
    """Seconds after which a client that reads nothing of its answer is given up."""


def find_limits() -> Limits:
    """Returns limits that leave half of the files to open for all else; raises the soft limit."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = _MAX_FILES if hard == resource.RLIM_INFINITY else min(hard, _MAX_FILES)
    if soft != resource.RLIM_INFINITY and soft < most:
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
    return Limits(min(_MAX_CONNECTIONS, max(most // 2, 8)))


def build_config(
    app: Any, room: "Room", *, tls: ssl.SSLContext | None = None, **settings: Any
) -> uvicorn.Config:
    """Returns the settings of a server that keeps to limits.

    Args:
        app: The app, with `RequestLife` as a part of it.
        room: Counts the connections, and has their limits.
        tls: How to speak TLS on all sockets but Unix sockets; None for plain text.
        **settings: Further settings of uvicorn.
    """
    return uvicorn.Config(
        app,
        http=cast(Any, functools.partial(Connection, room, tls)),
        ws="none",
        log_config=None,
        # Its warnings are about requests, with which strangers could fill the log.
        log_level=logging.ERROR,
        access_log=False,
        # Who connects is who connects, whatever they say.
        proxy_headers=False,
        backlog=BACKLOG,
        h11_max_incomplete_event_size=_MAX_HEAD_BYTES,
        timeout_keep_alive=_KNOWN_SECS,
        **settings,
    )


def build_tls(certificate: str, key: str) -> ssl.SSLContext:
    """Returns how a server speaks TLS: version 1.2 or later.

    Args:
        certificate: File with its certificate, and those of the authorities below the known ones.
        key: File with the private key.

    Raises:
        OSError: If they can't be read, or do not fit each other.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    # A client could keep the server busy by it.
    context.options |= ssl.OP_NO_RENEGOTIATION
    context.set_alpn_protocols(["http/1.1"])
    # A key with a password would ask for it at the terminal.
    context.load_cert_chain(certificate, key, password=b"")
    return context


class Room:
    """The connections of a server, in the order in which they came."""

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self._connections: dict[Connection, None] = {}

    def admit(self, connection: "Connection") -> bool:
        """Counts a connection; returns False if there are as many as may be, and none is idle."""
        if len(self._connections) >= self.limits.total and not self._evict():
            return False
        self._connections[connection] = None
        return True

    def leave(self, connection: "Connection") -> None:
        """Forgets a connection, if it was counted."""
        self._connections.pop(connection, None)

    def hurry(self) -> None:
        """Gives clients little time to read on, as the server ends; any thread may call this."""
        self.limits = dataclasses.replace(self.limits, stall_secs=_FAREWELL_SECS)
        for each in list(self._connections):
            each.hurry()

    def _evict(self) -> bool:
        """Ends the oldest idle connection, a stranger's before others; False if there is none."""
        idle = (each for each in self._connections if each.is_idle)
        strangers = (each for each in self._connections if not each.is_known and each.is_idle)
        chosen = next(strangers, None) or next(idle, None)
        if chosen is None:
            return False
        self.leave(chosen)
        chosen.abort()
        return True


class Connection(asyncio.Protocol):
    """A connection that is counted, and ends if its client takes too long.

    Args:
        room: Counts it.
        tls: How to speak TLS, unless it is one of a Unix socket; None for plain text.
        app_state: State that requests begin with.
        **settings: Further settings of uvicorn's protocol.
    """

    def __init__(
        self, room: Room, tls: ssl.SSLContext | None, *, app_state: dict[str, Any], **settings: Any
    ) -> None:
        self._http = h11_impl.H11Protocol(app_state={**app_state, CONNECTION: self}, **settings)
        self._loop = asyncio.get_running_loop()
        self._room = room
        self._tls = tls
        self._transport: asyncio.Transport
        self._early: list[bytes] | None = []
        self._timer: asyncio.TimerHandle | None = None
        self._num_requests = 0
        self._owes_body = self._is_blocked = self._is_local = False
        self.is_known = False

    @override
    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        self._transport = transport
        if not self._room.admit(self):
            transport.abort()
            return
        # Only the user's own programs reach a Unix socket.
        self._is_local = transport.get_extra_info("socket").family == socket.AF_UNIX
        self.is_known = self._is_local
        self._watch(self._room.limits.head_secs)
        if self._tls is None or self._is_local:
            self._begin(transport)
        else:
            transport.pause_reading()  # What comes is for TLS.
            self._securing = self._loop.create_task(self._secure(self._tls))

    async def _secure(self, tls: ssl.SSLContext) -> None:
        plain, secs = self._transport, self._room.limits.head_secs
        try:
            with contextlib.suppress(OSError):  # Who speaks something else is told nothing.
                secured = await self._loop.start_tls(
                    plain,
                    self,
                    tls,
                    server_side=True,
                    ssl_handshake_timeout=secs,
                    ssl_shutdown_timeout=secs,
                )
                if secured is not None and not plain.is_closing():
                    self._begin(secured)
        finally:
            if self._early is not None:
                self.connection_lost(None)

    def _begin(self, transport: asyncio.Transport) -> None:
        early, self._early, self._transport = self._early or [], None, transport
        self._http.connection_made(transport)
        for piece in early:
            self.data_received(piece)

    @override
    def data_received(self, data: bytes) -> None:
        if self._early is not None:
            self._early.append(data)
            return
        if not self._num_requests and self._timer is None:
            self._watch(self._room.limits.head_secs)
        try:
            self._http.data_received(data)
        except h11.LocalProtocolError:
            # uvicorn answers bad bytes of a body also where the answer has begun.
            self._transport.abort()

    @override
    def connection_lost(self, exc: Exception | None) -> None:
        self._watch(None)
        self._room.leave(self)
        if self._early is None:
            self._http.connection_lost(exc)

    @override
    def pause_writing(self) -> None:
        self._is_blocked = True
        self._watch_state()
        self._http.pause_writing()

    @override
    def resume_writing(self) -> None:
        self._is_blocked = False
        self._watch_state()
        self._http.resume_writing()

    @property
    def is_idle(self) -> bool:
        """True if no answer is worked on: the client has to go on."""
        return not self._num_requests or self._owes_body or self._is_blocked

    @property
    def is_closing(self) -> bool:
        """True if nothing more can be sent."""
        return self._transport.is_closing()

    def abort(self) -> None:
        """Ends the connection at once."""
        self._transport.abort()

    def hurry(self) -> None:
        """Looks at the limits anew; any thread may call this."""
        with contextlib.suppress(RuntimeError):  # The loop has ended already.
            self._loop.call_soon_threadsafe(self._watch_state)

    def begin_request(self, *, has_body: bool) -> None:
        """Notes that a request is worked on."""
        self._num_requests += 1
        self._owes_body = has_body
        self._watch_state()

    def end_body(self) -> None:
        """Notes that the body of the request is complete."""
        self._owes_body = False
        self._watch_state()

    def end_request(self, *, is_known: bool) -> None:
        """Notes that a request was answered, of somebody who is trusted or not."""
        self._num_requests -= 1
        self._owes_body = False
        self.is_known = is_known or self._is_local
        self._watch_state()

    def _watch_state(self) -> None:
        """Gives the client the time that it has for what it is to do now."""
        limits = self._room.limits
        if self._is_blocked:
            self._watch(limits.stall_secs)
        elif self._owes_body:
            self._watch(limits.body_secs)
        else:
            self._watch(None if self._num_requests or self.is_known else limits.head_secs)

    def _watch(self, secs: float | None, num_unread: int = 0) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = None
        if secs is not None:
            self._timer = self._loop.call_later(secs, self._look, secs, num_unread)

    def _look(self, secs: float, num_unread: int) -> None:
        """Ends the connection when its time is over, unless the client still reads an answer."""
        left = self._transport.get_write_buffer_size()
        if left and left != num_unread:
            self._watch(secs, left)
        else:
            self._transport.abort()
