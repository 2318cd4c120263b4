import contextlib
import socket
import threading
import time

import pytest

from quintain import errors
from quintain.client import address
from quintain.client.http import connection, patient_sending, unix_sockets

ANSWER = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}"
NUM_BYTES = 8 * 2**20
CONNECT_SECS = 0.2


@pytest.fixture(params=["http", "unix"])
def listener(request, tmp_path, monkeypatch):
    """Returns a socket that nobody reads from yet, and how it is asked."""
    monkeypatch.setattr(connection, "_CONNECT_SECS", CONNECT_SECS)
    if request.param == "unix":
        tmp_path.chmod(0o700)
        path = tmp_path / "master.sock"
        found, url = unix_sockets.listen(path), f"unix:{path}"
    else:
        found = socket.create_server(("127.0.0.1", 0))
        url = "http://{}:{}".format(*found.getsockname())
    with contextlib.closing(found):
        yield found, address.Address(url)


def test_a_request_may_take_longer_to_send_than_to_connect(listener):
    found, where = listener
    came = []

    def read_slowly():
        peer, _ = found.accept()
        with peer, peer.makefile("rb") as file:
            while line := file.readline().strip():
                came.append(line.lower())
            time.sleep(2.0 * CONNECT_SECS)  # What the system keeps is full meanwhile.
            came.append(file.read(NUM_BYTES))
            peer.sendall(ANSWER)

    thread = threading.Thread(target=read_slowly)
    thread.start()
    with connection.Connection(where, retries=connection.Retries(0.0)) as connected:
        data = bytes(range(256)) * (NUM_BYTES // 256)
        assert connected.send_bytes("/", data, query={}) == {}
    thread.join()
    assert came[-1] == data
    assert b"content-length: %d" % NUM_BYTES in came
    assert not any(line.startswith(b"transfer-encoding") for line in came[:-1])


def test_a_request_of_which_nothing_more_is_taken_is_given_up(listener, monkeypatch):
    monkeypatch.setattr(patient_sending, "STALL_SECS", 0.1)
    _, where = listener
    with (
        connection.Connection(where, retries=connection.Retries(0.0)) as connected,
        pytest.raises(errors.MasterUnreachableError, match="timed out"),
    ):
        connected.send_bytes("/", bytes(NUM_BYTES), query={})
