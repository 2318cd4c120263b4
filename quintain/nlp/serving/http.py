"""Serves an app until the process is told to end."""

import logging
import socket
from typing import Final

import fastapi
import uvicorn

from quintain import errors

_GRACE_SECS: Final = 30
_BACKLOG: Final = 256


def listen(host: str, port: int) -> socket.socket:
    """Returns a socket that listens.

    Args:
        host: Address, or name of one.
        port: Port; 0 for a free one.

    Raises:
        ConfigError: If the address can't be listened on.
    """
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        # asyncio sends small answers at once only on sockets that name their protocol.
        listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((host, port))
        listener.listen(_BACKLOG)
    except OSError as error:
        raise errors.ConfigError(
            f"--host, --port: got {host}:{port}, which can't be listened on ({error}). "
            "--port=0 takes a free port."
        ) from error
    return listener


def serve(app: fastapi.FastAPI, listener: socket.socket) -> None:
    """Serves until SIGINT or SIGTERM; then answers what waits."""
    config = uvicorn.Config(
        app,
        log_config=None,
        log_level=logging.WARNING,
        access_log=False,
        timeout_graceful_shutdown=_GRACE_SECS,
    )
    uvicorn.Server(config).run(sockets=[listener])
