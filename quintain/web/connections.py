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
import functools
import logging
import sys
import types
from typing import Any, Final, cast

import h11
import uvicorn
from typing_extensions import override
from uvicorn.protocols.http import flow_control, h11_impl

from quintain.web import connection_limits, quiet_logs

KNOWN: Final = "is_known_client"
"""Name in the state of a request (`scope["state"]`) that is set once its sender is trusted."""

_MAX_HEAD_BYTES: Final = 32 * 1024
_BACKLOG: Final = 128
"""Connections that are taken at once, before any of them is counted."""

_FAREWELL_SECS: Final = 1.0
_TLS_HELLO: Final = b"\x16\x03"

logger = logging.getLogger(__name__)


def build_config(app: Any, limits: connection_limits.Limits, **settings: Any) -> uvicorn.Config:
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
    protocol = functools.partial(HttpProtocol, ledger=connection_limits.Ledger(limits))
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


def find_ledger(config: uvicorn.Config) -> connection_limits.Ledger:
    """Returns what counts the connections of a server with such settings (`build_config`)."""
    ledger: connection_limits.Ledger = cast(Any, config.http).keywords["ledger"]
    return ledger


class HttpProtocol(h11_impl.H11Protocol):
    """A connection that is counted, and watched.

    One that rests keeps nothing of its last request: thousands do while trials train.
    """

    # With these among its other attributes, each would have a table of them of its own.
    __slots__ = (
        *("ledger", "_early", "_is_lost", "_num_resumes", "_awaited", "_since_secs", "_written"),
        *("_written_at_secs", "_num_ended", "_rests_since_secs", "_was_known", "_speaks_tls"),
    )

    def __init__(self, *args: Any, ledger: connection_limits.Ledger, **settings: Any) -> None:
        super().__init__(*args, **settings)
        self.ledger = ledger
        self._early: tuple[bytes, ...] = ()
        self._is_lost = self._speaks_tls = False
        self._num_resumes = 0
        self._awaited: Any = None
        self._since_secs = 0.0
        self._written: Any = None
        self._written_at_secs = 0.0
        self._num_ended = 0
        self._rests_since_secs: float | None = None
        self._was_known = False

    @override
    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self.flow = _FlowControl(transport)
        self._since_secs = self.loop.time()
        if not self.ledger.admit(self, connection_limits.find_client(transport)):
            transport.abort()

    def begin(self, transport: asyncio.Transport) -> None:
        """Does what `connection_made` does, where data may have come, or the end, before it."""
        if not self._is_lost:
            self.connection_made(transport)
            for piece in self._early:
                self.data_received(piece)
        self._early = ()

    @override
    def data_received(self, data: bytes) -> None:
        if self.transport is None:
            self._early += (data,)
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
        self.server_state.total_requests += 1
        if self.transport.is_closing():
            return
        self._num_ended += 1
        self._was_known = self.is_known
        if self._was_known:
            self.ledger.trust(self)
        if self.conn.their_state is not h11.SEND_BODY:
            self.scope = self.headers = cast(Any, None)
            self.cycle = cast(Any, _ENDED)
        self._rests_since_secs = self.loop.time()
        self.flow.resume_reading()
        if self.conn.our_state is h11.DONE and self.conn.their_state is h11.DONE:
            self.conn.start_next_cycle()
            self.handle_events()

    @override
    def _unset_keepalive_if_required(self) -> None:
        self._rests_since_secs = None

    @property
    def is_idle(self) -> bool:
        """True if nobody waits for an answer here."""
        is_asked = self.cycle is not None and not self.cycle.response_complete
        return not is_asked or self.conn.their_state is h11.SEND_BODY

    @property
    def is_known(self) -> bool:
        """True if its last request was of somebody who is trusted."""
        if self.scope is None:
            return self._was_known
        return bool(self.scope["state"].get(KNOWN, False))

    def give_up_if_slow(self, now_secs: float) -> None:
        """Ends the connection if its client takes too long."""
        limits = self.ledger.limits
        if self._rests_since_secs is not None:
            kept_secs = self.ledger.known_secs if self._was_known else limits.stranger_secs
            if now_secs - self._rests_since_secs > kept_secs:
                self.timeout_keep_alive_handler()
                return
        awaited = (self.conn.their_state, self._num_ended) if self._owes_request() else None
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
        """True if a request was begun, or is the first one, and is not complete."""
        if self.conn.their_state is h11.SEND_BODY:
            return True
        is_first = self.cycle is None
        return self.conn.their_state is h11.IDLE and (is_first or bool(self.conn.trailing_data[0]))


class _FlowControl(flow_control.FlowControl):
    """One that has something to wait by only once there is something to wait for."""

    __slots__ = ("_is_writable", "_transport", "read_paused", "write_paused")

    def __init__(self, transport: asyncio.Transport) -> None:
        self._transport = transport
        self.read_paused = self.write_paused = False
        self._is_writable: asyncio.Event | None = None

    @override
    async def drain(self) -> None:
        if self._is_writable is not None:
            await self._is_writable.wait()

    @override
    def pause_writing(self) -> None:
        if not self.write_paused:
            self.write_paused, self._is_writable = True, asyncio.Event()

    @override
    def resume_writing(self) -> None:
        if self._is_writable is not None:
            self._is_writable.set()
        self.write_paused, self._is_writable = False, None


_ENDED: Final = types.SimpleNamespace(response_complete=True, message_event=asyncio.Event())
"""The request and answer of connections that rest."""


def describe_peer(transport: asyncio.Transport) -> str:
    """Returns the address and the port that a connection comes from, or its user."""
    peer = transport.get_extra_info("peername")
    if isinstance(peer, tuple):
        return f"{peer[0]}:{peer[1]}"
    return connection_limits.find_client(transport)
