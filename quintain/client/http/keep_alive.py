"""Asks a silent master's machine whether it is still there, while an answer is waited for.

An answer may take many minutes, as that to a large checkpoint does. A machine that was lost, or a
path to it that was cut, says nothing: TCP would wait for as long as the request may take.
"""

import socket
from typing import Final

from urllib3 import connection

_SILENT_SECS: Final = 30
_PAUSE_SECS: Final = 10
_MOST_UNANSWERED: Final = 6

_SETTINGS: Final = {
    "TCP_KEEPIDLE": _SILENT_SECS,
    "TCP_KEEPALIVE": _SILENT_SECS,  # The same on macOS.
    "TCP_KEEPINTVL": _PAUSE_SECS,
    "TCP_KEEPCNT": _MOST_UNANSWERED,
}

OPTIONS: Final = [
    *connection.HTTPConnection.default_socket_options,
    (socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1),
    *(
        (socket.IPPROTO_TCP, getattr(socket, name), value)
        for name, value in _SETTINGS.items()
        if hasattr(socket, name)
    ),
]
"""What is set of each TCP connection: it ends after a minute and a half of silence."""
