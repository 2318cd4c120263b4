import http.server
import os
import socketserver
import threading

import pytest

from quintain import errors
from quintain.client import address as address_lib
from quintain.client.http import connection, unix_sockets

NOBODY = 65534


@pytest.fixture
def home(tmp_path):
    home = tmp_path / "a [1] ü %41?"
    home.mkdir(mode=0o700)
    return home


@pytest.fixture
def serve():
    """Returns a function that answers at a path, and the tokens that arrived."""
    tokens, servers = [], []

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            tokens.append(self.headers["Authorization"])
            self.send_response(200)
            self.send_header("Content-Length", "2")
            self.end_headers()
            self.wfile.write(b"17")

        def log_message(self, *_):
            pass

    class Server(socketserver.ThreadingMixIn, socketserver.BaseServer):
        daemon_threads = True

        def __init__(self, listener):
            super().__init__(None, Handler)
            self.socket = listener

        def fileno(self):
            return self.socket.fileno()

        def get_request(self):
            return self.socket.accept()[0], ("local", 0)

        def shutdown_request(self, request):
            request.close()

    def start(listener):
        server = Server(listener)
        thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
        thread.start()
        servers.append((server, thread))

    yield start, tokens
    for server, thread in servers:
        server.shutdown()
        thread.join()
        server.socket.close()


def ask(path, secs=0.0, **pauses):
    address = address_lib.Address(f"unix:{path}", "secret")
    with connection.Connection(address, retries=connection.Retries(secs, **pauses)) as connected:
        return connected.request("GET", "/x", query={"a": "ä"})


@pytest.mark.parametrize("depth", [0, 5])
def test_a_socket_is_reached_in_any_directory_however_long_its_name(home, serve, depth):
    start, tokens = serve
    for _ in range(depth):
        home /= "d" * 60
        home.mkdir(mode=0o700)
    start(unix_sockets.listen(home / "master.sock"))
    assert (home / "master.sock").stat().st_mode & 0o777 == 0o600

    assert ask(home / "master.sock") == 17
    assert tokens == ["Bearer secret"]


def test_what_a_killed_process_left_is_replaced_and_a_file_is_not(home, serve):
    start, _ = serve
    unix_sockets.listen(home / "s").close()
    start(unix_sockets.listen(home / "s"))
    assert ask(home / "s") == 17
    (home / "f").write_text("mine")
    with pytest.raises(errors.ConfigError, match=r"f: can't be listened on"):
        unix_sockets.listen(home / "f")
    assert (home / "f").read_text() == "mine"


def test_a_master_that_is_not_there_is_waited_for(home, serve):
    with pytest.raises(errors.MasterUnreachableError, match=r"unix:.*master\.sock: .*No such file"):
        ask(home / "master.sock")
    unix_sockets.listen(home / "master.sock").close()
    with pytest.raises(errors.MasterUnreachableError, match="refused"):
        ask(home / "master.sock")
    timer = threading.Timer(0.2, lambda: serve[0](unix_sockets.listen(home / "master.sock")))
    timer.start()
    assert ask(home / "master.sock", secs=20.0) == 17
    timer.join()


def test_a_pause_ends_when_another_master_listens(home, serve, replace_sleep):
    unix_sockets.listen(home / "master.sock").close()
    slept = []

    def sleep(secs):
        slept.append(secs)
        if len(slept) == 3:
            serve[0](unix_sockets.listen(home / "master.sock"))

    replace_sleep(connection, sleep)

    assert ask(home / "master.sock", 7200.0, first_pause_secs=900.0) == 17
    assert sum(slept) < 1.0


@pytest.mark.parametrize("mode", [0o770, 0o707, 0o777])
def test_no_token_goes_where_others_may_have_put_the_socket(home, serve, mode):
    start, tokens = serve
    start(unix_sockets.listen(home / "s"))
    home.chmod(mode)
    with pytest.raises(errors.UnauthorizedError, match=rf"mode {mode:04o}, so that others may"):
        ask(home / "s")
    with pytest.raises(errors.UnauthorizedError):
        unix_sockets.listen(home / "t")
    assert tokens == []


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a directory away")
def test_no_token_goes_to_the_directory_of_another_user(home, serve):
    start, tokens = serve
    start(unix_sockets.listen(home / "s"))
    os.chown(home, NOBODY, NOBODY)
    with pytest.raises(errors.UnauthorizedError, match=f"belongs to user {NOBODY}"):
        ask(home / "s")
    assert tokens == []
