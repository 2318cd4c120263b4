"""Real sockets that speak TLS, or do not, against a server with small limits."""

import contextlib
import dataclasses
import socket
import ssl
import threading
import time

import pytest

from quintain.server.http import certificates
from quintain.web import connections, http_server, request_life

MANY_SECS = 60.0
LIMITS = connections.Limits(total=4, head_secs=MANY_SECS, body_secs=MANY_SECS, stall_secs=MANY_SECS)
"""Ends nobody whom a busy machine keeps waiting: a test that is about a time shortens that one."""
GET = b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"


async def app(scope, receive, send):
    """Answers at once, with the scheme; or at length."""
    scope["state"][connections.KNOWN] = True
    await send({"type": "http.response.start", "status": 200, "headers": []})
    for _ in range(1000 if scope["path"] == "/big" else 0):
        await send({"type": "http.response.body", "body": bytes(2**16), "more_body": True})
    await send({"type": "http.response.body", "body": scope["scheme"].encode()})


@pytest.fixture(scope="module")
def own(tmp_path_factory):
    return certificates.load_own(tmp_path_factory.mktemp("home") / "tls", [])


@pytest.fixture
def serve(own):
    """Returns a function that serves with other limits, and gives back the address."""
    with contextlib.ExitStack() as stack:

        def start(answer=app, **changes):
            listener = stack.enter_context(http_server.listen(0, 0))
            limits = dataclasses.replace(LIMITS, **changes)
            served = request_life.RequestLife(answer, refuse=None)
            stack.enter_context(http_server.serve(served, listener, limits=limits, tls=own.context))
            return listener.getsockname()

        yield start


@pytest.fixture
def connect():
    """Returns a function that connects, and sends something."""
    with contextlib.ExitStack() as stack:

        def open_one(address, data=b""):
            opened = stack.enter_context(socket.create_connection(address, timeout=MANY_SECS))
            opened.sendall(data)
            return opened

        yield open_one


def build_client():
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return context


def wait_until_closed(connected):
    with contextlib.suppress(ConnectionError):
        while connected.recv(2**16):
            pass


@pytest.mark.parametrize("begun", [b"", b"\x16\x03\x01\x02\x00\x01"], ids=["nothing", "a part"])
def test_who_does_not_agree_on_a_key_is_given_up(serve, connect, begun):
    address = serve(head_secs=0.3)
    start_secs = time.monotonic()
    wait_until_closed(connect(address, begun))
    assert 0.3 <= time.monotonic() - start_secs < MANY_SECS / 2


def test_who_speaks_something_else_is_told_nothing(serve, connect, caplog):
    address = serve()
    for data in (GET, b"\xff" * 500, b"\x16\x03\x01\xff\xff" + b"a" * 70_000):
        connected, answer = connect(address), b""
        with contextlib.suppress(ConnectionError):
            connected.sendall(data)
            while piece := connected.recv(2**16):
                answer += piece
        assert b"HTTP" not in answer
    assert caplog.text == ""


def test_connections_count_before_they_have_agreed_on_a_key(serve, connect):
    address = serve()
    with build_client().wrap_socket(connect(address)) as known:
        for _ in range(2):
            known.sendall(GET)
            answer = b""
            while not answer.endswith(b"0\r\n\r\n"):
                answer += known.recv(2**16)
            assert b"200 OK" in answer
            # The first one makes room, and not who is trusted.
            silent = [connect(address) for _ in range(4)]
            wait_until_closed(silent[0])


def test_a_request_may_come_with_the_last_word_on_the_key(serve, connect):
    address = serve()
    for _ in range(5):
        connected, back, there = connect(address), ssl.MemoryBIO(), ssl.MemoryBIO()
        client = build_client().wrap_bio(back, there)
        while True:
            try:
                client.do_handshake()
                break
            except ssl.SSLWantReadError:
                connected.sendall(there.read())
                back.write(connected.recv(2**16))
        client.write(GET)
        connected.sendall(there.read())
        answer = b""
        while b"https" not in answer:
            with contextlib.suppress(ssl.SSLWantReadError):
                answer += client.read(2**16)
                continue
            piece = connected.recv(2**16)
            assert piece
            back.write(piece)
        assert b"200 OK" in answer


def test_who_reads_nothing_is_given_up_over_tls_too(serve, connect):
    is_given_up = threading.Event()

    async def noting(scope, receive, send):
        await app(scope, receive, send)
        is_given_up.set()

    with build_client().wrap_socket(connect(serve(noting, stall_secs=0.3))) as deaf:
        deaf.sendall(GET.replace(b"/ ", b"/big "))
        assert is_given_up.wait(MANY_SECS)
        size = 0
        with contextlib.suppress(ConnectionError, ssl.SSLError):
            while piece := deaf.recv(2**20):
                size += len(piece)
    assert size < 1000 * 2**16
