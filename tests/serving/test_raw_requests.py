"""What no client would send to a served model, byte by byte."""

import contextlib
import json
import logging
import random
import re
import socket

import pytest

from quintain.serving import app, served_model
from quintain.web import http_server
from tests.programs import hostile_requests

BODY = json.dumps({"texts": ["a b"]}).encode()
NEXT = (
    b"POST /predict HTTP/1.1\r\nHost: {host}\r\nContent-Type: application/json\r\n"
    b"Content-Length: %d\r\n\r\n" % len(BODY) + BODY
)
HEAD = b"POST /predict HTTP/1.1\r\nHost: {host}\r\nContent-Type: application/json\r\n"
REFUSED = [
    HEAD + b"Transfer-Encoding: chunked\r\nContent-Length: 0\r\n\r\n0\r\n\r\n" + NEXT,
    HEAD + b"Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n\r\n0\r\n\r\n" + NEXT,
    HEAD + b"Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n" + NEXT,
    HEAD + b"Transfer-Encoding: chunked\r\n\r\n0x2\r\n{}\r\n0\r\n\r\n" + NEXT,
    HEAD + b"Transfer-Encoding: chunked\r\n\r\n2\r\n{}XX0\r\n\r\n" + NEXT,
    HEAD + b"Content-Length: 2, 3\r\n\r\n{}" + NEXT,
    HEAD + b"Content-Length: -2\r\n\r\n{}" + NEXT,
    HEAD + b"Content-Length : 2\r\n\r\n{}" + NEXT,
    HEAD + b"Content-Length: " + b"9" * 30 + b"\r\n\r\n{}" + NEXT,
    HEAD + b"X: a\rb: c\r\n\r\n",
    HEAD + b"X: " + b"a" * 200_000 + b"\r\n\r\n",
    HEAD + b"a: b\r\n" * 30_000 + b"\r\n",
    b"GET /" + b"a" * 200_000 + b" HTTP/1.1\r\n\r\n",
]


@pytest.fixture
def served(caplog):
    """Serves a model; returns a function that sends bytes and returns the statuses, and texts."""
    seen = []

    def predict(texts):
        seen.extend(texts)
        return [{"label": "a"} for _ in texts]

    def check(texts):
        served_model.check_texts(texts, 1, served_model.MAX_TEXT_BYTES)
        return texts

    model = served_model.ServedModel("sentence_prediction", predict, check, example=["a"])
    made = app.build_app(model, max_queue=200)
    with (
        contextlib.closing(http_server.listen(0, 0)) as listener,
        http_server.serve(made, listener),
    ):
        where = listener.getsockname()

        def send(data, count=100, secs=60):
            host = f"{where[0]}:{where[1]}".encode()
            with socket.create_connection(where, timeout=secs) as connected:
                answer = b""
                with contextlib.suppress(OSError):
                    connected.sendall(data.replace(b"{host}", host))
                found = []
                with contextlib.suppress(ConnectionResetError, TimeoutError):
                    while len(found) < count and (piece := connected.recv(2**16)):
                        answer += piece
                        found = re.findall(rb"HTTP/1\.1 (\d+)", answer)
            assert [one for one in caplog.records if one.levelno >= logging.ERROR] == [], data
            return [int(status) for status in found]

        yield send, seen


def test_what_two_servers_may_read_differently_is_the_end_of_its_connection(served):
    send, seen = served
    for data in REFUSED:
        assert send(data) in ([400], [422]), data[:300]
    assert seen == []
    assert send(NEXT * 3, count=3) == [200] * 3


@pytest.mark.long("tests/server/test_raw_requests.py tries the same connections")
@pytest.mark.slow
def test_requests_of_which_bytes_are_others_are_no_fault_of_the_server(served):
    send, _ = served
    choice = random.Random(3)
    for _ in range(200):
        data = hostile_requests.spoil_bytes(choice, NEXT)
        # Some wait for more, which does not come.
        assert all(status < 500 for status in send(data, count=1, secs=0.2)), data
    assert send(NEXT, count=1) == [200]


def test_integers_beyond_64_bits_are_the_mistake_of_the_client(served):
    send, seen = served
    body = b'{"texts": ["a"], "a": %d}' % 2**64
    head = HEAD + b"Content-Length: %d\r\n\r\n" % len(body)
    assert send(head + body, count=1) == [422]
    assert seen == []
