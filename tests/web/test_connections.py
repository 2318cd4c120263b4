"""Real sockets against a server with small limits."""

import asyncio
import contextlib
import dataclasses
import logging
import os
import resource
import select
import socket
import threading
import time

import pytest
from starlette import responses

from quintain.client.http import unix_sockets
from quintain.web import connections, http_server, request_life

MANY_SECS = 60.0
LIMITS = connections.Limits(total=6, head_secs=MANY_SECS, body_secs=MANY_SECS, stall_secs=MANY_SECS)
"""Ends nobody whom a busy machine keeps waiting: a test that is about a time shortens that one."""
GET = b"GET %s HTTP/1.1\r\nHost: x\r\n\r\n"
BIG = 64 * 2**20


async def app(scope, receive, send):
    """Answers `/known` to somebody trusted, `/slow` late, `/big` at length, all else at once."""
    scope["state"][connections.KNOWN] = scope["path"] == "/known"
    if scope["path"] == "/slow":
        await asyncio.sleep(1.5)
    message = {}
    while message.get("more_body", scope["method"] == "POST" and scope["path"] != "/refused"):
        message = await receive()
        if message["type"] == "http.disconnect":
            return
    await send({"type": "http.response.start", "status": 200, "headers": []})
    body = bytes(2**16)
    for _ in range(BIG // len(body) if scope["path"] == "/big" else 0):
        await send({"type": "http.response.body", "body": body, "more_body": True})
    await send({"type": "http.response.body", "body": b"hello"})


def refuse(status_code, message):
    return responses.PlainTextResponse(message, status_code)


@pytest.fixture
def serve(tmp_path):
    """Returns a function that serves with other limits, and gives back its two addresses."""
    tmp_path.chmod(0o700)
    with contextlib.ExitStack() as stack:

        def start(answer=app, **changes):
            listener = stack.enter_context(contextlib.closing(http_server.listen(0, 0)))
            path = tmp_path / "s"
            local = stack.enter_context(contextlib.closing(unix_sockets.listen(path)))
            limits = dataclasses.replace(LIMITS, **changes)
            served = request_life.RequestLife(answer, refuse=refuse)
            stack.enter_context(http_server.serve(served, listener, local, limits=limits))
            return listener.getsockname(), path

        yield start


@pytest.fixture
def connect():
    """Returns a function that connects, to an address or a path, and sends something."""
    with contextlib.ExitStack() as stack:

        def open_one(address, data=b""):
            if isinstance(address, tuple):
                opened = socket.create_connection(address, timeout=MANY_SECS)
            else:
                opened = unix_sockets.connect(address, MANY_SECS)
            stack.enter_context(opened)
            opened.sendall(data)
            return opened

        yield open_one


def is_open(connected):
    """Returns whether the other side has not closed a connection."""
    with contextlib.suppress(ConnectionResetError):
        while select.select([connected], [], [], 0)[0]:
            if not connected.recv(2**16):
                return False
        return True
    return False


def wait_until_closed(connected):
    """Returns once the other side has closed a connection."""
    deadline_secs = time.monotonic() + MANY_SECS / 2
    while is_open(connected):
        assert time.monotonic() < deadline_secs
        time.sleep(0.01)


@pytest.mark.parametrize(
    "begun",
    [
        b"",
        b"GET / HT",
        b"GET / HTTP/1.1\r\nHost: x\r\n",
        b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\nab",
        b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n",
        GET % b"/",
    ],
    ids=["nothing", "line", "head", "body", "chunks", "a stranger's"],
)
def test_who_does_not_go_on_is_given_up(serve, connect, begun):
    address, _ = serve(head_secs=0.3, body_secs=0.3)
    start_secs = time.monotonic()
    wait_until_closed(connect(address, begun))
    assert time.monotonic() - start_secs >= 0.3


@pytest.mark.parametrize("before", [b"", GET % b"/known"], ids=["stranger", "trusted"])
def test_bytes_that_trickle_do_not_win_time(serve, connect, before):
    address, _ = serve(head_secs=0.3)
    slow = connect(address, before)
    answer = b"" if before else b"0\r\n\r\n"
    while not answer.endswith(b"0\r\n\r\n"):
        answer += slow.recv(2**16)
    slow.sendall(b"GET / HTTP/1.1\r\n")
    with contextlib.suppress(OSError):
        # Five seconds at least, where 0.3 are allowed for the head.
        for _ in range(100):
            slow.sendall(b"a: b\r\n")
            time.sleep(0.05)
            if not is_open(slow):
                break
    assert not is_open(slow)


def test_who_reads_nothing_is_given_up_and_who_reads_slowly_is_not(serve, connect):
    is_given_up = threading.Event()

    async def noting(scope, receive, send):
        await app(scope, receive, send)
        if scope["query_string"] == b"deaf":
            is_given_up.set()

    address, _ = serve(answer=noting, stall_secs=1.0)
    slow, deaf = connect(address, GET % b"/big"), connect(address, GET % b"/big?deaf")
    start_secs, size = time.monotonic(), 0
    while not is_given_up.is_set() or time.monotonic() - start_secs < 5.0:
        assert time.monotonic() - start_secs < MANY_SECS
        size += len(slow.recv(2**18))
        time.sleep(0.05)
    while size < BIG:
        piece = slow.recv(2**22)
        assert piece
        size += len(piece)
    size = 0
    with contextlib.suppress(ConnectionResetError):
        while piece := deaf.recv(2**22):
            size += len(piece)
    assert size < BIG


def test_answers_may_take_long_and_trusted_clients_stay(serve, connect):
    address, path = serve(head_secs=1.0, body_secs=0.3, stall_secs=0.3)
    slow, known = connect(address, GET % b"/slow"), connect(path, GET % b"/known")
    answer = b""
    while not answer.endswith(b"hello\r\n0\r\n\r\n"):
        answer += slow.recv(1000)
    assert is_open(known)
    known.sendall(GET % b"/known")
    assert b"200 OK" in known.recv(1000)


def test_idle_connections_make_room_for_new_ones(serve, connect):
    address, path = serve()
    half_open = [connect(address, b"GET /") for _ in range(50)]
    assert b"200 OK" in connect(address, GET % b"/").recv(1000)
    assert b"200 OK" in connect(path, GET % b"/").recv(1000)
    for closed in half_open[:46]:
        wait_until_closed(closed)
    assert all(map(is_open, half_open[47:]))


def test_strangers_make_no_end_of_trusted_clients(serve, connect):
    address, path = serve()
    own = [connect(where, GET % b"/known") for where in (path, path, address, address)]
    for each in own:
        answer = b""
        while not answer.endswith(b"hello\r\n0\r\n\r\n"):
            answer += each.recv(2**16)
    for number in range(2, 52):
        with socket.socket() as opened:
            opened.bind((f"127.0.0.{number}", 0))
            opened.connect(address)
            opened.sendall(b"GET /")
    assert b"200 OK" in connect(address, GET % b"/").recv(1000)
    assert all(map(is_open, own))
    own[2].sendall(GET % b"/known")
    assert b"200 OK" in own[2].recv(1000)


def test_no_answer_is_given_up_for_a_new_connection(serve, connect):
    num_asked, may_answer = threading.Semaphore(0), threading.Event()

    async def wait(scope, receive, send):
        num_asked.release()
        while not may_answer.is_set():
            await asyncio.sleep(0.01)
        await app(scope, receive, send)

    address, _ = serve(answer=wait)
    asked = [connect(address, GET % b"/") for _ in range(LIMITS.total)]
    assert all(num_asked.acquire(timeout=MANY_SECS) for _ in asked)
    wait_until_closed(connect(address, GET % b"/"))
    may_answer.set()
    for each in asked:
        assert b"200 OK" in each.recv(1000)


def test_a_flood_leaves_files_to_open_and_a_short_log(serve, connect, caplog):
    address, _ = serve()
    before = len(os.listdir("/proc/self/fd"))
    with caplog.at_level(logging.WARNING), contextlib.ExitStack() as stack:
        for _ in range(300):
            stack.enter_context(connect(address, b"\0\r\n\r\n")).close()
        assert b"200 OK" in connect(address, GET % b"/").recv(1000)
    assert len(caplog.records) <= 2
    assert len(os.listdir("/proc/self/fd")) < before + 20


@pytest.mark.parametrize("path", [b"/", b"/slow", b"/big", b"/refused"])
def test_a_body_that_is_none_is_answered_once(serve, connect, caplog, path):
    address, _ = serve()
    head = b"POST %s HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n" % path
    connected = connect(address, head)
    time.sleep(0.1)
    connected.sendall(b"2\r\nab\r\nzz\r\n")
    answer = b""
    with contextlib.suppress(ConnectionError):
        while piece := connected.recv(2**20):
            answer += piece
    assert answer.count(b"HTTP/1.1 ") == 1
    assert [one for one in caplog.records if one.levelno >= logging.ERROR] == []


def test_limits_leave_half_of_the_files(monkeypatch):
    files = {"now": (300, 5000)}
    monkeypatch.setattr(resource, "getrlimit", lambda _: files["now"])
    monkeypatch.setattr(resource, "setrlimit", lambda _, new: files.update(now=new))
    assert connections.find_limits().total == 2500
    assert files["now"] == (5000, 5000)
    files["now"] = (300, 300)
    assert connections.find_limits().total == 150
    files["now"] = (2**20, 2**20)
    assert connections.find_limits().total == 4096
