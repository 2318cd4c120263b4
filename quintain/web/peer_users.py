"""Says whose connections over the loopback device are, as the kernel of Linux knows it.

Every user of a machine can connect to every port of it. For each connection within the machine the
kernel has the user at its other end.
"""

import contextlib
import errno
import os
import socket
import struct
import sys
from typing import Final

_ROOT: Final = 0
_SOCK_DIAG: Final = 4
_SOCK_DIAG_BY_FAMILY: Final = 20
_REQUEST: Final = 1
_ESTABLISHED: Final = 1
_HEADER: Final = struct.Struct("=IHHII")
_QUERY: Final = struct.Struct("=BBBxI")
_PORTS: Final = struct.Struct("!HH")
_DEVICE_AND_COOKIE: Final = struct.pack("=III", 0, 0xFFFFFFFF, 0xFFFFFFFF)
_ERROR: Final = struct.Struct("=i")
_STATE: Final = struct.Struct("=xB")
_USER: Final = struct.Struct("=I")
_USER_OFFSET: Final = 64
_TIMEOUT_SECS: Final = 1.0


def is_other_user(client: tuple[str, int], server: tuple[str, int]) -> bool:
    """Returns whether a connection within this machine is another user's.

    Root counts as everybody: it passes on the connections of containers and virtual machines, and
    may do everything anyway. False where the system can't tell; see `can_tell`.

    Args:
        client: Address and port of the other side.
        server: Address and port of this side.
    """
    if not client[0].startswith("127."):
        return False
    try:
        user = find_user(client, server)
    except ConnectionError:
        return True  # Nobody is there any more who could be asked.
    return user is not None and user not in (_ROOT, os.geteuid())


def find_user(client: tuple[str, int], server: tuple[str, int]) -> int | None:
    """Returns the number of the user at the other side, or None if the system can't tell.

    Args:
        client: IPv4 address and port of the other side.
        server: Those of this side.

    Raises:
        ConnectionError: If the other side has closed the connection.
    """
    if sys.platform != "linux":
        return None
    try:
        found = _look_up(client, server)
        # A connection with one end here comes from elsewhere: a virtual machine's host, say.
        is_open = found or _look_up(server, client)
    except OSError:
        return None
    if is_open is None or is_open[0] != _ESTABLISHED:
        # What nobody holds any more is said to be root's.
        raise ConnectionError("The connection is about to end.")
    return None if found is None else found[1]


def _look_up(near: tuple[str, int], far: tuple[str, int]) -> tuple[int, int] | None:
    """Returns state and user of one end of a connection, or None if it is not in this system.

    Raises:
        OSError: If the system does not answer.
    """
    query = b"".join(
        (
            _QUERY.pack(socket.AF_INET, socket.IPPROTO_TCP, 0, 0xFFFFFFFF),
            _PORTS.pack(near[1], far[1]),
            socket.inet_aton(near[0]) + bytes(12),
            socket.inet_aton(far[0]) + bytes(12),
            _DEVICE_AND_COOKIE,
        )
    )
    head = _HEADER.pack(_HEADER.size + len(query), _SOCK_DIAG_BY_FAMILY, _REQUEST, 0, 0)
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, _SOCK_DIAG) as asking:
        asking.settimeout(_TIMEOUT_SECS)
        asking.sendto(head + query, (0, 0))
        answer = asking.recv(4096)
    kind, content = _HEADER.unpack_from(answer)[1], answer[_HEADER.size :]
    if kind == _SOCK_DIAG_BY_FAMILY:
        state: int = _STATE.unpack_from(content)[0]
        user: int = _USER.unpack_from(content, _USER_OFFSET)[0]
        return state, user
    number = -_ERROR.unpack_from(content)[0]
    if number != errno.ENOENT:
        raise OSError(number, "The kernel does not say whose connections are")
    return None


def can_tell() -> bool:
    """Returns whether the system says whose connections are."""
    with contextlib.ExitStack() as opened:
        listener = opened.enter_context(socket.create_server(("127.0.0.1", 0)))
        client = opened.enter_context(socket.create_connection(listener.getsockname()))
        server = opened.enter_context(listener.accept()[0])
        return find_user(client.getsockname(), server.getsockname()) == os.geteuid()
