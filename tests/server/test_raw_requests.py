"""What no client would send, byte by byte."""

import contextlib
import re
import socket
import urllib.parse

import pytest

HEAD = "{line} HTTP/1.1\r\nHost: {host}\r\n"
TOKEN = "Authorization: Bearer the-token\r\n"
READ, PAUSE = "GET /api/v1/master", "POST /api/v1/experiments/1/pause"


@pytest.fixture
def tell(url):
    """Returns a function that sends bytes, and returns the statuses of what is answered."""
    host = urllib.parse.urlsplit(url).netloc

    def send(text, count=1):
        name, port = host.split(":")
        with socket.create_connection((name, int(port)), timeout=20) as connected:
            connected.sendall(text.replace("{host}", host).encode("latin-1"))
            answer, found = b"", []
            with contextlib.suppress(ConnectionResetError):
                while len(found) < count and (piece := connected.recv(2**16)):
                    answer += piece
                    found = re.findall(rb"HTTP/1\.1 (\d+)", answer)
        return [int(status) for status in found]

    return send


def begin(line):
    return HEAD.replace("{line}", line)


REQUESTS = [
    (begin(READ) + TOKEN + "\r\n" + begin(READ) + "\r\n", [200, 401]),
    (begin(READ) + "\r\n" + begin(READ) + TOKEN + "\r\n", [401, 200]),
    (begin(PAUSE) + TOKEN + "Transfer-Encoding: chunked\r\nContent-Length: 4\r\n"
     "Content-Type: application/json\r\n\r\n0\r\n\r\n" + begin(READ) + "\r\n", [400, 401]),
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
    ("GET /api/v1/master HTTP/1.0\r\n" + TOKEN + "\r\n", [403]),
    ("GET /api/v1/master\r\n\r\n", [400]),
    ("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", [403, 400]),
    (begin(READ) + TOKEN + "Upgrade: websocket\r\nConnection: Upgrade\r\n\r\n", [200]),
    (begin(READ) + TOKEN + "a: b\r\n" * 30_000 + "\r\n", [400]),
]  # fmt: skip


def test_what_is_no_good_request_gets_no_good_answer(tell, master):
    for text, expected in REQUESTS:
        assert tell(text, len(expected)) == expected, text[:300]
        assert master.calls == []
    assert tell(begin(READ) + TOKEN + "\r\n") == [200]
