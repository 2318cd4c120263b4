"""Serves an app over HTTP, and HTTPS, from a thread of this process."""

import contextlib
import logging
import socket
import ssl
import threading
import time
from collections.abc import Iterator
from typing import Final

import fastapi

from quintain import errors
from quintain.client import address
from quintain.web import connection_limits, connections, doors, tls_connections

HOST: Final = "127.0.0.1"
"""The address that is listened on unless another one is named: only this machine reaches it."""

logger = logging.getLogger(__name__)

_NETWORK_SHARE: Final = 0.25
"""Part of the connections that may come over TCP; trials and commands use the Unix socket."""

_CLIENT_SHARE: Final = 0.25
_START_SECS: Final = 20.0
_STOP_SECS: Final = 10.0
_GRACE_SECS: Final = 5
"""Time in which requests may end that are worked on when the server stops."""


def listen(port: int, former_port: int, host: str = HOST) -> socket.socket:
    """Returns a socket that listens.

    Args:
        port: The port to listen on; 0 for that of the master before, or a free one.
        former_port: Port of the master before, on which its processes look for it; 0 for none.
        host: Address of this machine, or name of one.

    Raises:
        ConfigError: If the host is none of this machine's, or the port is taken.
    """
    try:
        family, _, _, _, (number, *_) = socket.getaddrinfo(
            host.strip("[]"), None, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
    except (OSError, UnicodeError) as error:
        raise errors.ConfigError(
            f"--host: got {host!r}, which can't be found ({error}); expected an address of this "
            "machine, such as 0.0.0.0 for all that it has."
        ) from error
    if not port and former_port:
        with contextlib.suppress(OSError):
            return _bind(family, str(number), former_port)
        if not address.is_loopback(str(number)):
            logger.warning(
                "Port %d, on which agents and users look for this master, is taken; another one is "
                "used. Name one by --port that stays free.",
                former_port,
            )
    try:
        return _bind(family, str(number), port)
    except OSError as error:
        option, given = ("port", port) if port else ("host", repr(host))
        advice = "leave it out to have a free one chosen" if port else "0.0.0.0 stands for all"
        raise errors.ConfigError(
            f"--{option}: got {given}, which can't be listened on ({error.strerror}) at {host}; "
            f"{advice}."
        ) from error


def _bind(family: int, host: str, port: int) -> socket.socket:
    # asyncio sends small answers at once only on sockets that name their protocol; otherwise each
    # one waits 40 ms for the other side.
    listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((host, port))
        listener.listen(doors.BACKLOG)
    except OSError:
        listener.close()
        raise
    return listener


@contextlib.contextmanager
def serve(
    app: fastapi.FastAPI,
    *listeners: socket.socket,
    limits: connection_limits.Limits | None = None,
    tls: ssl.SSLContext | None = None,
) -> Iterator[tls_connections.Server]:
    """Serves an app in a thread, on sockets that listen, and gives what does it.

    Args:
        app: What answers.
        *listeners: The sockets.
        limits: Limits on connections; those of a master that this machine asks if None.
        tls: How TLS is spoken on the sockets that are no Unix sockets; None for plain text.

    Raises:
        ClusterError: If the server does not come up.
    """
    config = connections.build_config(
        app,
        limits
        or connection_limits.find_limits(network_share=_NETWORK_SHARE, client_share=_CLIENT_SHARE),
        log_level=logging.WARNING,
        lifespan="off",
        # Who connects is who connects, whatever they say.
        proxy_headers=False,
        timeout_graceful_shutdown=_GRACE_SECS,
    )
    plain = [one for one in listeners if tls is None or one.family == socket.AF_UNIX]
    secured = [one for one in listeners if one not in plain]
    server = tls_connections.Server(config, context=tls, listeners=secured)
    thread = threading.Thread(target=server.run, args=(plain,), name="quintain-http", daemon=True)
    thread.start()
    deadline_secs = time.monotonic() + _START_SECS
    while not server.started:
        if not thread.is_alive() or time.monotonic() > deadline_secs:
            raise errors.ClusterError("The HTTP server of the master did not start.")
        time.sleep(0.005)
    try:
        yield server
    finally:
        server.should_exit = True
        thread.join(_STOP_SECS)
