import socket

import pytest

from quintain.process import held_ports


@pytest.mark.parametrize(("host", "listening"), [("", ""), ("127.0.0.1", ""), ("127.0.0.1",) * 2])
def test_a_held_port_is_free_for_one_that_listens(host, listening):
    with held_ports.hold(host) as held, socket.socket() as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)

        listener.bind((listening, held.getsockname()[1]))
        listener.listen()


def test_a_held_port_is_taken_for_all_others():
    held = held_ports.hold("127.0.0.1")
    with held, socket.socket() as other, pytest.raises(OSError, match="in use"):
        other.bind(held.getsockname())
