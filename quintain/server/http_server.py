"""Serves an app over HTTP from a thread of this process."""

import contextlib
import logging
import socket
import threading
import time
from collections.abc import Iterator
from typing import Final

import fastapi
import uvicorn

from quintain import errors
from quintain.web import connections

HOST: Final = "127.0.0.1"

_BACKLOG: Final = 128
_NETWORK_SHARE: Final = 0.25
"""Part of the connections that may come over TCP; trials and commands use the Unix socket."""

_CLIENT_SHARE: Final = 0.25
_START_SECS: Final = 20.0
_STOP_SECS: Final = 10.0
_GRACE_SECS: Final = 5
"""Time in which requests may end that are worked on when the server stops."""


def listen(port: int, former_port: int) -> socket.socket:
    """Returns a socket that listens on the loopback device.

    Args:
        port: The port to listen on; 0 for that of the master before, or a free one.
        former_port: Port of the master before, on which its processes look for it; 0 for none.

    Raises:
        ConfigError: If the port is taken.
    """
    if not port and former_port:
        with contextlib.suppress(OSError):
            return _bind(former_port)
    try:
        return _bind(port)
    except OSError as error:
        raise errors.ConfigError(
            f"--port: got {port}, which can't be listened on ({error.strerror}); leave it out to "
            "have a free one chosen."
        ) from error


def _bind(port: int) -> socket.socket:
    # asyncio sends small answers at once only on sockets that name their protocol; otherwise each
    # one waits 40 ms for the other side.
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((HOST, port))
        listener.listen(_BACKLOG)
    except OSError:
        listener.close()
        raise
    return listener


@contextlib.contextmanager
def serve(
    app: fastapi.FastAPI, *listeners: socket.socket, limits: connections.Limits | None = None
) -> Iterator[None]:
    """Serves an app in a thread, on sockets that listen.

    Args:
        app: What answers.
        *listeners: The sockets.
        limits: Limits on connections; those that fit this process if None.

    Raises:
        ClusterError: If the server does not come up.
    """
    config = connections.build_config(
        app,
        limits or connections.find_limits(network_share=_NETWORK_SHARE, client_share=_CLIENT_SHARE),
        log_level=logging.WARNING,
        lifespan="off",
        # Who connects is who connects, whatever they say.
        proxy_headers=False,
        timeout_graceful_shutdown=_GRACE_SECS,
    )
    server = uvicorn.Server(config)
    thread = threading.Thread(
        target=server.run, args=(list(listeners),), name="quintain-http", daemon=True
    )
    thread.start()
    deadline_secs = time.monotonic() + _START_SECS
    while not server.started:
        if not thread.is_alive() or time.monotonic() > deadline_secs:
            raise errors.ClusterError("The HTTP server of the master did not start.")
        time.sleep(0.005)
    try:
        yield
    finally:
        server.should_exit = True
        thread.join(_STOP_SECS)
