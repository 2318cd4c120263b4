import contextlib
import os
import socket
import struct
import sys

import pytest

from quintain.web import peer_users

pytestmark = pytest.mark.skipif(
    sys.platform != "linux" or not peer_users.can_tell(), reason="the system can't tell"
)


@pytest.fixture
def connection():
    """Returns both ends of a connection within this machine."""
    with contextlib.ExitStack() as opened:
        listener = opened.enter_context(socket.create_server(("127.0.0.1", 0)))
        client = opened.enter_context(socket.create_connection(listener.getsockname()))
        server = opened.enter_context(listener.accept()[0])
        yield client, server


def test_the_user_of_a_connection_is_known(connection, monkeypatch):
    client, server = connection
    ends = client.getsockname(), server.getsockname()
    assert peer_users.find_user(*ends) == os.geteuid()
    assert not peer_users.is_other_user(*ends)

    monkeypatch.setattr(peer_users, "_ROOT", -1)
    monkeypatch.setattr(os, "geteuid", lambda: 12345)
    assert peer_users.is_other_user(*ends)


def test_who_has_gone_is_nobody_known(connection):
    """The kernel says of connections that nobody holds any more that they are root's."""
    client, server = connection
    ends = client.getsockname(), server.getsockname()
    client.close()
    with pytest.raises(ConnectionError, match="about to end"):
        peer_users.find_user(*ends)
    assert peer_users.is_other_user(*ends)
    server.close()
    with pytest.raises(ConnectionError, match="about to end"):
        peer_users.find_user(("127.0.0.1", 1), ("127.0.0.1", 2))


def test_who_cuts_the_connection_is_nobody_known(connection):
    client, server = connection
    ends = client.getsockname(), server.getsockname()
    client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    client.close()
    assert peer_users.is_other_user(*ends)


def test_the_other_end_may_be_in_another_system(connection, monkeypatch):
    client, server = connection
    ends = client.getsockname(), server.getsockname()
    look_up = peer_users._look_up
    monkeypatch.setattr(
        peer_users, "_look_up", lambda near, far: None if near == ends[0] else look_up(near, far)
    )
    assert peer_users.find_user(*ends) is None
    assert not peer_users.is_other_user(*ends)


def test_other_machines_and_systems_are_not_asked(connection, monkeypatch):
    assert not peer_users.is_other_user(("10.1.2.3", 5000), ("10.1.2.4", 80))

    def refuse(*_):
        raise PermissionError

    client, server = connection
    ends = client.getsockname(), server.getsockname()
    monkeypatch.setattr(socket, "socket", refuse)
    assert peer_users.find_user(*ends) is None
    assert not peer_users.is_other_user(*ends)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives sockets away")
def test_another_user_is_told_from_this_one(connection):
    client, server = connection
    os.fchown(client.fileno(), 12345, -1)
    ends = client.getsockname(), server.getsockname()
    assert peer_users.find_user(*ends) == 12345
    assert peer_users.is_other_user(*ends)
