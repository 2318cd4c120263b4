"""Sends requests for as long as the master takes something of them, however slow the line is.

By itself, urllib3 hands a whole body to the system at once, within the time that it may take to
connect: what does not pass in these few seconds would begin anew each time, and never arrive.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final

import urllib3
from typing_extensions import override
from urllib3 import connection

STALL_SECS: Final = 60.0
"""So long nothing of a request may be taken; a master waits for no longer, either."""

_PIECE_BYTES: Final = 64 * 1024


class PatientConnection(connection.HTTPConnection):
    """A connection whose requests may take long to send, as long as they get on."""

    @override
    def request(
        self,
        method: str,
        url: str,
        body: Any = None,
        headers: Mapping[str, Any] | None = None,
        **settings: Any,
    ) -> None:
        """Sends a request; a body of bytes goes piece by piece."""
        if self.sock is None:
            self.connect()  # Within its own time, which is that of `timeout` now.
        self.timeout = STALL_SECS
        if isinstance(body, bytes):
            headers = {**(headers or {}), "Content-Length": str(len(body))}
            body = _split(body)
        super().request(method, url, body, headers, **settings)


class PatientPool(urllib3.HTTPConnectionPool):
    """Such connections in plain text."""

    ConnectionCls = PatientConnection


def _split(data: bytes) -> Iterator[memoryview]:
    whole = memoryview(data)
    return (whole[at : at + _PIECE_BYTES] for at in range(0, len(data), _PIECE_BYTES))
