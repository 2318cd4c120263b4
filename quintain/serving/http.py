"""Serves an app until the process is told to end."""

import ipaddress
import logging
import math
import socket
from types import FrameType
from typing import Final

import fastapi
import uvicorn
from typing_extensions import override

from quintain import errors
from quintain.web import connection_limits, connections

_BACKLOG: Final = 256
_CLIENT_SHARE: Final = 0.5
"""Part of the connections that one address may have; a proxy before the server is one."""


def listen(host: str, port: int) -> socket.socket:
    """Returns a socket that listens.

    Args:
        host: Address, or name of one.
        port: Port; 0 for a free one.

    Raises:
        ConfigError: If the address can't be listened on.
    """
    listener = None
    try:
        family, _, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        # asyncio sends small answers at once only on sockets that name their protocol.
        listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
        listener.listen(_BACKLOG)
    except (OSError, UnicodeError) as error:
        if listener is not None:
            listener.close()
        raise errors.ConfigError(
            f"--host, --port: got {host!r} and {port}, which can't be listened on ({error}). "
            "--port=0 takes a free port."
        ) from error
    return listener


def get_url(host: str, listener: socket.socket) -> str:
    """Returns the address under which a listener is reached, as browsers take it.

    Args:
        host: What was given to `listen`.
        listener: What it returned.
    """
    shown = f"[{host}]" if ":" in host else host
    return f"http://{shown}:{listener.getsockname()[1]}"


def is_open(listener: socket.socket) -> bool:
    """Returns whether other machines may reach a listener."""
    address = str(listener.getsockname()[0]).partition("%")[0]
    return not ipaddress.ip_address(address).is_loopback


class _Server(uvicorn.Server):
    """Ends in order on SIGINT and SIGTERM, and does not die of the signal afterwards."""

    @override
    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        # The second one does not wait for the answers.
        self.force_exit = self.should_exit
        self.should_exit = True


def serve(app: fastapi.FastAPI, listener: socket.socket, *, grace_secs: float = 30.0) -> None:
    """Serves until SIGINT or SIGTERM; then answers what waits.

    Args:
        app: What answers.
        listener: A socket that listens; it is closed at the end.
        grace_secs: How long the answers to what waits may take. A second signal ends at once.
    """
    config = connections.build_config(
        app,
        connection_limits.find_limits(network_share=1.0, client_share=_CLIENT_SHARE),
        log_level=logging.WARNING,
        timeout_graceful_shutdown=math.ceil(grace_secs),
    )
    _Server(config).run(sockets=[listener])
