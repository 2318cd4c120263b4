"""Takes connections from a socket that listens, as long as there is room for them.

asyncio takes all that come, so that a server that has enough can only turn them away; where
thousands come at once it would do little else, as each of them comes again a second later. Here
they stay with the system, at no cost for the server, until there is room.
"""

import asyncio
import contextlib
import errno
import logging
import select
import socket
from collections.abc import Callable
from typing import Final

from quintain.web import connection_limits

logger = logging.getLogger(__name__)

BACKLOG: Final = 1024
"""Connections that wait with the system; it lets others try again by themselves."""

_AT_ONCE: Final = 128
_FULL_SECS: Final = 0.05
_RETRY_SECS: Final = 1.0
_SHORT: Final = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)
"""What the system says that has no files or memory left."""


class Door:
    """One socket that listens. It has the methods of `asyncio.Server` that uvicorn calls.

    Args:
        listener: The socket; it is not closed with the door.
        build_protocol: Builds what handles a connection.
        ledger: Knows for how many there is room.
    """

    def __init__(
        self,
        listener: socket.socket,
        build_protocol: Callable[[], asyncio.Protocol],
        ledger: connection_limits.Ledger,
    ) -> None:
        self._listener = listener
        self._build_protocol = build_protocol
        self._ledger = ledger
        self._loop = asyncio.get_running_loop()
        self._is_local = listener.family == socket.AF_UNIX
        self._coming: set[asyncio.Task[None]] = set()
        self._num_uncounted = 0
        self._is_closed = False
        listener.setblocking(False)
        listener.listen(BACKLOG)
        self._waiting = select.poll()
        self._waiting.register(listener, select.POLLIN)
        self._open()

    def close(self) -> None:
        """Takes no connections any more."""
        if not self._is_closed:
            self._is_closed = True
            self._loop.remove_reader(self._listener)

    async def wait_closed(self) -> None:
        """Waits until those that were taken have been handed over."""
        await asyncio.gather(*self._coming, return_exceptions=True)

    def _open(self) -> None:
        if not self._is_closed:
            self._loop.add_reader(self._listener, self._take)

    def _pause(self, secs: float) -> None:
        self._loop.remove_reader(self._listener)
        self._loop.call_later(secs, self._open)

    def _take(self) -> None:
        """Takes those that wait, some at a time, so that others are answered in between."""
        for _ in range(_AT_ONCE):
            # Room is made by ending another's connection: never for nobody.
            if not self._waiting.poll(0):
                return
            if not self._ledger.has_room(
                self._loop.time(), is_local=self._is_local, num_coming=self._num_uncounted
            ):
                self._pause(_FULL_SECS)
                return
            try:
                connected, _ = self._listener.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as error:
                if error.errno not in _SHORT:
                    raise
                logger.warning("No connection can be taken for now: %s.", error.strerror)
                self._pause(_RETRY_SECS)
                return
            connected.setblocking(False)
            self._num_uncounted += 1
            task = self._loop.create_task(self._hand_over(connected))
            self._coming.add(task)
            task.add_done_callback(self._coming.discard)

    async def _hand_over(self, connected: socket.socket) -> None:
        try:
            await self._loop.connect_accepted_socket(self._begin, connected)
        except OSError:  # Who has come is gone already.
            with contextlib.suppress(OSError):
                connected.close()

    def _begin(self) -> asyncio.Protocol:
        # Right before the ledger counts it: never is one counted twice, which may end another.
        self._loop.call_soon(self._note_counted)
        return self._build_protocol()

    def _note_counted(self) -> None:
        self._num_uncounted -= 1
