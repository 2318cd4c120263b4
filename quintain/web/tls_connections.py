"""TLS for the connections of one of a server's sockets, counted and watched from their first byte.

asyncio's own way makes a connection known only once both sides have agreed on a key. Until then
whoever connects and says nothing would hold it for a minute, in any number. Here such a connection
counts as one that owes its request; see `connections`.
"""

import asyncio
import contextlib
import logging
import socket
import ssl
from collections.abc import Callable, Iterator, Sequence
from typing import Any, cast

import uvicorn
from typing_extensions import override

from quintain.web import connection_limits, connections, doors, quiet_logs

logger = logging.getLogger(__name__)


def build_context(certificate: str, key: str) -> ssl.SSLContext:
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


class Server(uvicorn.Server):
    """A server some of whose sockets speak TLS.

    Args:
        config: Settings; see `connections.build_config`.
        context: How TLS is spoken; None if no socket does.
        listeners: The sockets that speak it.
    """

    def __init__(
        self,
        config: uvicorn.Config,
        *,
        context: ssl.SSLContext | None = None,
        listeners: Sequence[socket.socket] = (),
    ) -> None:
        super().__init__(config)
        quiet_logs.limit(__name__)
        self._context = context
        self._listeners = listeners

    @override
    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup([])
        plain = [(listener, self._build_protocol) for listener in sockets or ()]
        secured = [(listener, self._build_gate) for listener in self._listeners]
        ledger = connections.find_ledger(self.config)
        opened = [doors.Door(one, build, ledger) for one, build in (*plain, *secured)]
        self.servers += cast(Any, opened)
        self._loop = asyncio.get_running_loop()

    def listen_on(self, listener: socket.socket) -> None:
        """Takes connections, in plain text, from a further socket; any thread may call this.

        Args:
            listener: The socket, which is left to the server.
        """

        def open_door() -> None:
            ledger = connections.find_ledger(self.config)
            self.servers.append(cast(Any, doors.Door(listener, self._build_protocol, ledger)))

        self._loop.call_soon_threadsafe(open_door)

    def _build_gate(self) -> asyncio.Protocol:
        assert self._context is not None, "Without TLS no socket is listened on here."
        return _Gate(self._build_protocol, self._context)

    def _build_protocol(self) -> connections.HttpProtocol:
        build = cast(Callable[..., connections.HttpProtocol], self.config.http_protocol_class)
        return build(
            config=self.config,
            server_state=self.server_state,
            app_state=self.lifespan.state,
        )


class _Gate(asyncio.Protocol):
    """A connection until both sides have agreed on a key."""

    is_idle = True
    is_known = False

    def __init__(
        self, build_protocol: Callable[[], connections.HttpProtocol], context: ssl.SSLContext
    ) -> None:
        self._protocol = build_protocol()
        self._context = context
        self.loop = asyncio.get_running_loop()

    @override
    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        # What comes is for TLS, which is not there yet.
        transport.pause_reading()
        self.transport = transport
        self._since_secs = self.loop.time()
        if self._protocol.ledger.admit(self, connection_limits.find_client(transport)):
            self._agreeing = self.loop.create_task(self._agree())
        else:
            transport.abort()

    def give_up_if_slow(self, now_secs: float) -> None:
        """Ends the connection if its client takes too long."""
        if now_secs - self._since_secs > self._protocol.ledger.limits.head_secs:
            self._agreeing.cancel()
            self.transport.abort()

    async def _agree(self) -> None:
        ledger = self._protocol.ledger
        try:
            # Those who are not wanted, or speak something else, are told nothing.
            with contextlib.suppress(OSError), self._noting():
                secured = await self.loop.start_tls(
                    self.transport,
                    self._protocol,
                    self._context,
                    server_side=True,
                    ssl_shutdown_timeout=ledger.limits.stranger_secs,
                )
                ledger.leave(self)
                if secured is not None:
                    self._protocol.begin(secured)
        finally:
            ledger.leave(self)

    @contextlib.contextmanager
    def _noting(self) -> Iterator[None]:
        peer = connections.describe_peer(self.transport)
        try:
            yield
        except ssl.SSLError as error:
            if error.reason == "HTTP_REQUEST":
                logger.warning("%s speaks plain text, and here is TLS: ask by https://.", peer)
            else:
                logger.warning("%s and this server agree on no TLS (%s).", peer, error.reason)
            raise
