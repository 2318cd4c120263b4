"""An app over HTTP, and HTTPS: sockets that listen, and servers in a thread or until a signal."""

import contextlib
import ipaddress
import logging
import math
import socket
import ssl
import threading
import time
from collections.abc import Iterator
from types import FrameType
from typing import Any, Final

import uvicorn
from typing_extensions import override

from quintain import errors
from quintain.web import connections

HOST: Final = "127.0.0.1"
"""The address that is listened on unless another one is named: only this machine reaches it."""

logger = logging.getLogger(__name__)

_START_SECS: Final = 20.0
_STOP_SECS: Final = 10.0
_GRACE_SECS: Final = 5
"""Time in which requests may end that are worked on when a server in a thread stops."""


def listen(port: int, former_port: int = 0, host: str = HOST) -> socket.socket:
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
        if not ipaddress.ip_address(number).is_loopback:
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
        listener.listen(connections.BACKLOG)
    except OSError:
        listener.close()
        raise
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


@contextlib.contextmanager
def serve(
    app: Any,
    *listeners: socket.socket,
    limits: connections.Limits | None = None,
    tls: ssl.SSLContext | None = None,
) -> Iterator[None]:
    """Serves an app in a thread, on sockets that listen.

    Args:
        app: What answers.
        *listeners: The sockets.
        limits: Limits on connections; what the system allows if None.
        tls: How TLS is spoken on the sockets that are no Unix sockets; None for plain text.

    Raises:
        ClusterError: If the server does not come up.
    """
    room = connections.Room(limits or connections.find_limits())
    config = connections.build_config(
        app, room, tls=tls, lifespan="off", timeout_graceful_shutdown=_GRACE_SECS
    )
    server = uvicorn.Server(config)
    thread = threading.Thread(
        target=server.run, args=(list(listeners),), name="quintain-http", daemon=True
    )
    thread.start()
    deadline_secs = time.monotonic() + _START_SECS
    while not server.started:
        if not thread.is_alive() or time.monotonic() > deadline_secs:
            raise errors.ClusterError("The HTTP server did not start.")
        time.sleep(0.005)
    try:
        yield
    finally:
        server.should_exit = True
        # Who does not read keeps an answer that goes on for ever from its end.
        room.hurry()
        thread.join(_STOP_SECS)


class _Server(uvicorn.Server):
    """Ends in order on SIGINT and SIGTERM, and does not die of the signal afterwards."""

    @override
    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        # The second one does not wait for the answers.
        self.force_exit = self.should_exit
        self.should_exit = True


def serve_until_signal(app: Any, listener: socket.socket, *, grace_secs: float = 30.0) -> None:
    """Serves until SIGINT or SIGTERM; then answers what waits.

    Args:
        app: What answers.
        listener: A socket that listens; it is closed at the end.
        grace_secs: How long the answers to what waits may take. A second signal ends at once.
    """
    room = connections.Room(connections.find_limits())
    config = connections.build_config(app, room, timeout_graceful_shutdown=math.ceil(grace_secs))
    _Server(config).run(sockets=[listener])
