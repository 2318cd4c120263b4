"""A master that answers as a test tells it."""

import contextlib
import http.server
import json
import socket
import threading
import urllib.parse

import pytest


class FakeMaster:
    """Answers each request by the next entry of `answers`, the last one for ever.

    An entry is (status, plain data), or "hang up" to close the connection without an answer.
    """

    def __init__(self, port=0):
        self.answers = [(200, {})]
        self.requests = []
        self.sockets = []
        fake = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def setup(self):
                super().setup()
                fake.sockets.append(self.connection)

            def answer(self):
                data = self.rfile.read(int(self.headers.get("Content-Length", 0)))
                path, _, query = self.path.partition("?")
                fake.requests.append(
                    {
                        "method": self.command,
                        "path": path,
                        "query": dict(urllib.parse.parse_qsl(query)),
                        "body": json.loads(data) if data else None,
                        "token": self.headers.get("Authorization"),
                        "client": self.client_address,
                    }
                )
                answer = fake.answers.pop(0) if len(fake.answers) > 1 else fake.answers[0]
                if answer == "hang up":
                    self.close_connection = True
                    self.connection.close()
                    return
                status, content = answer
                text = content if isinstance(content, str) else json.dumps(content)
                data = b"" if status == 204 else text.encode()
                self.send_response(status)
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            do_GET = do_POST = do_DELETE = do_PATCH = answer  # noqa: N815

            def log_message(self, *_):
                pass

            def finish(self):
                if not self.connection._closed:
                    super().finish()

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", port), Handler)
        self.server.daemon_threads = True
        self.server.handle_error = lambda *_: None
        self.url = f"http://127.0.0.1:{self.server.server_port}"
        self.thread = threading.Thread(target=self.server.serve_forever, args=(0.01,), daemon=True)
        self.thread.start()

    @property
    def port(self):
        return self.server.server_port

    def stop(self):
        self.server.shutdown()
        self.server.server_close()
        for opened in self.sockets:
            with contextlib.suppress(OSError):
                opened.shutdown(socket.SHUT_RDWR)
        self.thread.join()


@pytest.fixture
def start_master():
    """Returns a function that starts a master, at a port if one is given."""
    started = []

    def start(port=0):
        started.append(FakeMaster(port))
        return started[-1]

    yield start
    for master in started:
        if master.thread.is_alive():
            master.stop()


@pytest.fixture
def master(start_master):
    """Returns a running master."""
    return start_master()
