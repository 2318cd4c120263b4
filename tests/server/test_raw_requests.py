"""What no client would send, byte by byte."""

import contextlib
import itertools
import logging
import random
import re
import socket
import ssl
import urllib.parse

import pytest

from quintain.master.processes import launch_tokens
from quintain.server.http import certificates
from quintain.web import http_server
from tests.programs import hostile_requests

KEY = launch_tokens.LaunchKey(bytes(32))
RUNS = "/api/v1/trials/7/runs"
HEAD = "{line} HTTP/1.1\r\nHost: {host}\r\n"
TOKEN = "Authorization: Bearer the-token\r\n"
READ, PAUSE = "GET /api/v1/master", "POST /api/v1/experiments/1/pause"


@pytest.fixture(params=["plain", "tls"])
def tell(request, app, tmp_path):
    """Returns a function that sends bytes, and returns the statuses of what is answered."""
    own = certificates.load_own(tmp_path / "tls", []) if request.param == "tls" else None
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE

    def send(text, count=1, secs=20.0):
        with contextlib.ExitStack() as stack:
            connected = stack.enter_context(socket.create_connection(where, timeout=20))
            if own is not None:
                connected = stack.enter_context(context.wrap_socket(connected))
            connected.settimeout(secs)
            sent = text.replace("{host}", f"{where[0]}:{where[1]}").encode("latin-1")
            answer, found = b"", []
            with contextlib.suppress(OSError):  # It may have been answered before its end.
                connected.sendall(sent)
            with contextlib.suppress(ConnectionResetError, TimeoutError, ssl.SSLError):
                while len(found) < count and (piece := connected.recv(2**16)):
                    answer += piece
                    found = re.findall(rb"HTTP/1\.1 (\d+)", answer)
        return [int(status) for status in found]

    with (
        contextlib.closing(http_server.listen(0, 0)) as listener,
        http_server.serve(app, listener, tls=None if own is None else own.context),
    ):
        where = listener.getsockname()
        yield send


def begin(line):
    return HEAD.replace("{line}", line)


JSON = TOKEN + "Content-Type: application/json\r\n"
CHUNKED = begin(PAUSE) + JSON + "Transfer-Encoding: chunked\r\n"
SMUGGLED = begin("POST /api/v1/experiments/1/kill") + JSON + "Content-Length: 2\r\n\r\n{}"
REQUESTS = [
    (begin(READ) + TOKEN + "\r\n" + begin(READ) + "\r\n", [200, 401]),
    (begin(READ) + "\r\n" + begin(READ) + TOKEN + "\r\n", [401, 200]),
    (begin(PAUSE) + TOKEN + "Transfer-Encoding: chunked\r\nContent-Length: 4\r\n"
     "Content-Type: application/json\r\n\r\n0\r\n\r\n" + begin(READ) + "\r\n", [400]),
    (begin(PAUSE) + TOKEN + "Content-Length: 4\r\nContent-Length: 5\r\n\r\n12345", [400]),
    (begin(PAUSE) + TOKEN + "Content-Length: +4\r\n\r\n1234", [400]),
    (begin(PAUSE) + TOKEN + "Content-Length: -4\r\n\r\n1234", [400]),
    (begin(PAUSE) + TOKEN + "Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n", [400]),
    (begin(PAUSE) + "Transfer-Encoding: chunked\r\n\r\n0\r\n" + TOKEN + "\r\n", [401]),
    (begin(READ) + TOKEN + "Host: example.org\r\n\r\n", [400]),
    (begin(READ) + TOKEN + "Authorization: Bearer x\r\n\r\n", [401]),
    (begin(READ) + "Authorization: Bearer x\r\n" + TOKEN + "\r\n", [401]),
    (begin(READ) + TOKEN.replace(":", " :") + "\r\n", [400]),
    (begin(READ) + TOKEN + "X: a\0b\r\n\r\n", [400]),
    (begin(READ + "?token=the-token") + "\r\n", [401]),
    (begin("GET http://{host}/api/v1/master") + TOKEN + "\r\n", [404]),
    (begin("GET http://example.org/api/v1/master") + "\r\n", [401]),
    (begin("OPTIONS *") + "\r\n", [401]),
    (begin("CONNECT example.org:443") + "\r\n", [401]),
    (begin("TRACE /api/v1/master") + TOKEN + "\r\n", [405]),
    ("GET /api/v1/master HTTP/1.0\r\n" + TOKEN + "\r\n", [421]),
    ("GET /api/v1/master\r\n\r\n", [400]),
    ("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", [421, 400]),
    (begin(READ) + TOKEN + "Upgrade: websocket\r\nConnection: Upgrade\r\n\r\n", [200]),
    (begin(READ) + TOKEN + "a: b\r\n" * 30_000 + "\r\n", [400]),
    (begin(READ) + TOKEN + "a: " + "b" * 200_000 + "\r\n\r\n", [400]),
    (("GET /" + "a" * 200_000 + " HTTP/1.1\r\n\r\n"), [400]),
    # Two servers in a row must not read different requests out of the same bytes.
    (CHUNKED + "Transfer-Encoding: identity\r\n\r\n0\r\n\r\n" + SMUGGLED, [400]),
    (CHUNKED + "Content-Length: 0\r\n\r\n0\r\n\r\n" + SMUGGLED, [400]),
    (begin(PAUSE) + JSON + "Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n" + SMUGGLED, [400]),
    (begin(PAUSE) + JSON + "Transfer-Encoding : chunked\r\n\r\n0\r\n\r\n" + SMUGGLED, [400]),
    (begin(PAUSE) + JSON + "Transfer-Encoding:\x0bchunked\r\n\r\n0\r\n\r\n" + SMUGGLED, [400]),
    (begin(PAUSE) + JSON + "Content-Length: 0x2\r\n\r\n{}" + SMUGGLED, [400]),
    (begin(PAUSE) + JSON + "Content-Length: 2, 3\r\n\r\n{}" + SMUGGLED, [400]),
    (begin(PAUSE) + JSON + "Content-Length: 2_0\r\n\r\n{}" + SMUGGLED, [400]),
    (begin(PAUSE) + JSON + "Content-Length: " + "9" * 30 + "\r\n\r\n{}" + SMUGGLED, [400]),
    (begin(PAUSE) + JSON + "Content-Length: \u00b2\r\n\r\n{}" + SMUGGLED, [400]),
    (CHUNKED + "\r\n0x2\r\n{}\r\n0\r\n\r\n" + SMUGGLED, [400]),
    (CHUNKED + "\r\n-2\r\n{}\r\n0\r\n\r\n" + SMUGGLED, [400]),
    (CHUNKED + "\r\n" + "f" * 30 + "\r\n{}\r\n0\r\n\r\n" + SMUGGLED, [400]),
    (CHUNKED + "\r\n2\r\n{}XX0\r\n\r\n" + SMUGGLED, [400]),
    (begin(READ) + TOKEN + "X: a\r\n b: c\r\n\r\n", [200]),
    (begin(READ) + TOKEN + "no colon\r\n\r\n", [400]),
    (begin(READ) + TOKEN + ": empty\r\n\r\n", [400]),
    (begin(READ) + TOKEN + "X: a\rSmuggled: b\r\n\r\n", [400]),
    (" " + begin(READ) + TOKEN + "\r\n", [400]),
    (begin(READ + " x") + TOKEN + "\r\n", [400]),
    # Requests that come at once are answered one by one, each by its own token.
    ((begin(READ) + TOKEN + "\r\n") * 20, [200] * 20),
    ((begin(READ) + TOKEN + "\r\n" + begin(READ) + "\r\n") * 5, [200, 401] * 5),
]  # fmt: skip


def test_what_is_no_good_request_gets_no_good_answer(tell, master):
    odd = []
    for text, expected in REQUESTS:
        # What can't be read is the end of its connection.
        found = tell(text, len(expected) + (expected == [400]))
        if found != expected or master.calls != []:
            odd.append((text[:300], expected, found, list(master.calls)))
            master.calls.clear()

    assert odd == []
    assert tell(begin(READ) + TOKEN + "\r\n") == [200]


@pytest.mark.long("Further cases of a test of which some run every time", but=["plain"])
@pytest.mark.slow
def test_requests_of_which_bytes_are_others_are_no_fault_of_the_master(tell, caplog):
    choice, body = random.Random(3), b'{"description": "a"}'
    head = f"{begin('PATCH /api/v1/experiments/1')}{JSON}Content-Length: {len(body)}\r\n\r\n"
    for _ in range(100):
        spoiled = hostile_requests.spoil_bytes(choice, head.encode() + body)
        # Some wait for more, which does not come.
        statuses = tell(spoiled.decode("latin-1"), secs=0.2)
        assert all(status < 500 for status in statuses), spoiled
    assert [one for one in caplog.records if one.levelno >= logging.ERROR] == []
    assert tell(head + body.decode()) == [200]


def test_who_sends_slowly_or_has_no_token_or_does_not_read_keeps_nobody_out(url, http):
    host = urllib.parse.urlsplit(url).netloc
    name, _, port = host.partition(":")
    token = KEY.build_token(7, "slow")

    def begin_slowly(line, given):
        return (
            f"{line} HTTP/1.1\r\nHost: {host}\r\nAuthorization: Bearer {given}\r\n"
            "Content-Type: application/json\r\nContent-Length: 1000\r\n\r\n{"
        ).encode()

    lines = [f"POST {RUNS}/slow/results", f"POST {RUNS}", f"PUT {RUNS}/slow/wait"]
    with contextlib.ExitStack() as connected:
        for line, given in itertools.product(lines * 25, ("wrong", token)):
            one = connected.enter_context(socket.create_connection((name, int(port)), timeout=20))
            one.sendall(begin_slowly(line, given))
        good = f"Bearer {KEY.build_token(8, 'good')}"
        path = "/api/v1/trials/8/runs/good/wait"
        answers = [
            http("PUT", path, authorization=good, body={"waits_for": ""}).status for _ in range(3)
        ]

    assert answers == [200] * 3
