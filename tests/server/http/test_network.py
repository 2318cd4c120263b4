import contextlib
import datetime
import io
import json
import socket
import ssl
import threading

import pytest
import urllib3

from quintain import errors
from quintain.client import address
from quintain.client.home import token_files
from quintain.client.http import connection
from quintain.master.processes import launch_tokens
from quintain.records.views import master_status
from quintain.server import app as app_lib
from quintain.server.http import certificates
from quintain.server.http import network as network_lib
from quintain.server.security import sessions as sessions_lib
from quintain.server.security import sign_in as sign_in_lib
from quintain.web import http_server

KEY = launch_tokens.LaunchKey(bytes(32))

QUICK = connection.Retries(total_secs=0.0)


@pytest.fixture(scope="module")
def own(tmp_path_factory):
    """Returns a certificate of a master's own making."""
    return certificates.load_own(tmp_path_factory.mktemp("home") / "tls", ["trainer.example.org"])


@pytest.fixture
def tls(app, own):
    """Serves the app over TLS, and returns where."""
    with (
        contextlib.closing(http_server.listen(0, 0)) as listener,
        http_server.serve(app, listener, tls=own.context),
    ):
        yield listener.getsockname()


@pytest.fixture
def connect(tls):
    """Returns a function that gives a connection to the served app."""
    with contextlib.ExitStack() as stack:

        def open_one(token="the-token", fingerprint="", host="127.0.0.1", scheme="https"):
            found = address.Address(f"{scheme}://{host}:{tls[1]}", token, fingerprint)
            return stack.enter_context(connection.Connection(found, retries=QUICK))

        yield open_one


def test_a_master_is_known_by_its_fingerprint(connect, own):
    for host in ("127.0.0.1", "localhost"):
        info = connect(fingerprint=own.fingerprint, host=host).request("GET", "/api/v1/master")
        assert info["version"] == "1.2.3"


class Impostor:
    """Speaks TLS with a certificate of its own, and notes what it is sent."""

    def __init__(self, certificate):
        self.received = b""
        self.num_handshakes = 0
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        self._context = certificate.context
        self._thread = threading.Thread(target=self._serve)
        self._thread.start()

    def _serve(self):
        for _ in range(2):
            with contextlib.suppress(OSError):
                taken, _ = self.listener.accept()
                with taken, self._context.wrap_socket(taken, server_side=True) as secured:
                    self.num_handshakes += 1
                    while piece := secured.recv(2**16):
                        self.received += piece

    def close(self):
        self._thread.join(20)
        self.listener.close()


def test_nothing_is_sent_to_who_shows_another_certificate(own, tmp_path):
    other = certificates.load_own(tmp_path / "tls", [])
    impostor = Impostor(other)
    url = f"https://127.0.0.1:{impostor.port}"
    for fingerprint, words in ((own.fingerprint, "not the one that"), ("", "no authority")):
        found = address.Address(url, "a-secret-token", fingerprint)
        with (
            connection.Connection(found, retries=QUICK) as connected,
            pytest.raises(errors.UntrustedMasterError, match=words) as caught,
        ):
            connected.request("POST", "/api/v1/experiments", body={"config_text": "secret"})
        assert "nothing was sent" in str(caught.value)
    impostor.close()
    assert impostor.num_handshakes >= 1
    assert impostor.received == b""


def test_a_request_does_not_follow_an_answer_to_another_place(own):
    def answer():
        taken, _ = listener.accept()
        with taken, own.context.wrap_socket(taken, server_side=True) as secured:
            secured.recv(2**16)
            secured.sendall(
                b"HTTP/1.1 307 Go\r\nLocation: http://127.0.0.1:1/\r\nContent-Length: 0\r\n\r\n"
            )

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=answer)
        thread.start()
        url = f"https://127.0.0.1:{listener.getsockname()[1]}"
        found = address.Address(url, "a-secret-token", own.fingerprint)
        with (
            connection.Connection(found, retries=QUICK) as connected,
            pytest.raises(errors.ClusterError, match="307"),
        ):
            connected.request("GET", "/api/v1/master")
        thread.join(20)


def test_plain_text_is_not_spoken_where_a_certificate_is_expected(connect, own, tls):
    with pytest.raises(errors.ConfigError, match="begins with https://"):
        connect(fingerprint=own.fingerprint, scheme="http").request("GET", "/api/v1/master")
    with socket.create_connection(tls, timeout=20) as plain:
        plain.sendall(b"GET /api/v1/master HTTP/1.1\r\nHost: x\r\n\r\n")
        with contextlib.suppress(ConnectionResetError):
            assert b"HTTP" not in plain.recv(2**16)


@pytest.mark.filterwarnings("ignore:ssl.TLSVersion:DeprecationWarning")
def test_old_versions_of_tls_are_refused(tls):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    context.minimum_version = ssl.TLSVersion.MINIMUM_SUPPORTED
    context.set_ciphers("ALL:@SECLEVEL=0")
    context.maximum_version = ssl.TLSVersion.TLSv1_1
    with (
        socket.create_connection(tls, timeout=20) as plain,
        pytest.raises(ssl.SSLError, match=r"EOF|ALERT"),
    ):
        context.wrap_socket(plain)


def test_the_token_of_agents_opens_the_addresses_of_agents_only(connect, own, home):
    orders = "/api/v1/agents/a/orders?session=a"
    agent = connect(token_files.load(home.agent_token), own.fingerprint)
    with pytest.raises(errors.ConfigError, match="This master takes no agents"):
        agent.request("GET", orders)
    for path in (
        "/api/v1/agents/a/nothing",
        "/api/v1/master",
        "/api/v1/experiments",
        "/api/v1/trials/1/runs/1-1/workload",
        "/api/v1/agents/../master",
        "/api/v1/agents/%2e%2e/master",
        "/api/v1/agents//a",
        "/agents/a/poll",
        "/api/v1/agentsx",
    ):
        with pytest.raises(errors.UnauthorizedError, match="agents"):
            agent.request("GET", path)

    for user in ("the-token", token_files.load(home.user_token)):
        with pytest.raises(errors.UnauthorizedError, match="A user's token is none of an agent"):
            connect(user, own.fingerprint).request("GET", orders)

    token_files.renew(home.agent_token)
    with pytest.raises(errors.UnauthorizedError, match="no token"):
        agent.request("GET", orders)


def test_a_user_of_another_machine_has_a_token_that_outlives_the_master(connect, own, home):
    with pytest.raises(errors.UnauthorizedError):
        connect("user-" + "a" * 43, own.fingerprint).request("GET", "/api/v1/master")
    token = token_files.load(home.user_token)
    assert home.user_token.stat().st_mode & 0o777 == 0o600
    info = connect(token, own.fingerprint).request("GET", "/api/v1/master")
    assert info["version"] == "1.2.3"


def test_a_certificate_is_made_once_and_renewed_when_it_is_about_to_end(
    tmp_path, caplog, monkeypatch
):
    directory = tmp_path / "tls"
    first = certificates.load_own(directory, ["trainer", "10.0.0.7", "bad name,DNS:x", "::1"])
    (path,) = directory.iterdir()
    assert path.stat().st_mode & 0o777 == 0o600
    assert certificates.load_own(directory, []).fingerprint == first.fingerprint
    assert caplog.text == ""

    monkeypatch.setattr(certificates, "_RENEWAL", datetime.timedelta(days=1e5))
    second = certificates.load_own(directory, [])
    assert second.fingerprint != first.fingerprint
    assert "ends on" in caplog.text

    monkeypatch.undo()
    path.write_text("damaged")
    third = certificates.load_own(directory, [])
    assert third.fingerprint not in (first.fingerprint, second.fingerprint)
    assert "holds none" in caplog.text


def make_certificate(directory, year, monkeypatch):
    """Makes a certificate as a master does whose clock is decades away."""
    made = datetime.datetime(year, 1, 1, tzinfo=datetime.UTC)
    with monkeypatch.context() as patched:
        patched.setattr(certificates, "_now", lambda: made)
        return certificates.load_own(directory, []).fingerprint


def test_a_clock_that_was_set_back_makes_no_agent_distrust_the_master(
    tmp_path, caplog, monkeypatch
):
    fingerprint = make_certificate(tmp_path / "tls", 2060, monkeypatch)
    assert certificates.load_own(tmp_path / "tls", []).fingerprint == fingerprint
    assert caplog.text == ""
    # Clients that know no fingerprint would refuse it.
    with pytest.raises(errors.ConfigError, match="is not yet valid, by the clock of this machine"):
        certificates.load(str(tmp_path / "tls" / "master.pem"), "")


def test_certificates_that_can_not_be_used_are_named(tmp_path, own, monkeypatch):
    certificates.load_own(tmp_path / "tls", [])
    certificates.load_own(tmp_path / "other", [])
    made, other = tmp_path / "tls" / "master.pem", tmp_path / "other" / "master.pem"
    (tmp_path / "empty").write_text("")
    for certificate, key, words in (
        (tmp_path / "missing", "", "can't be read"),
        (tmp_path / "empty", "", "holds none"),
        (made, other, "can't be used with"),
        (made, tmp_path / "missing", "No such file"),
        (made, tmp_path / "empty", "can't be used with"),
    ):
        with pytest.raises(errors.ConfigError, match=words):
            certificates.load(str(certificate), str(key))

    make_certificate(tmp_path / "old", 2000, monkeypatch)
    with pytest.raises(errors.ConfigError, match="has expired"):
        certificates.load(str(tmp_path / "old" / "master.pem"), "")


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"key": "k"}, "without --certificate"),
        ({"is_insecure": True}, "only this machine reaches"),
        ({"host": "0.0.0.0", "is_insecure": True, "use_tls": True}, "leave one"),
        ({"host": "no.such.host.invalid"}, "--host: got 'no.such.host.invalid', which can't be"),
        ({"host": "192.0.2.1"}, "--host: got '192.0.2.1', which can't be listened on"),
    ],
)
def test_settings_that_can_not_be_are_refused(home, settings, words):
    network = network_lib.Network(**settings)
    with (
        pytest.raises(errors.ConfigError, match=words),
        network_lib.listen(network, home, port=0, former_port=0),
    ):
        pass


def test_only_the_loopback_device_is_spoken_to_in_plain_text(home, monkeypatch):
    def listen(**settings):
        network = network_lib.Network(**settings)
        with network_lib.listen(network, home, port=0, former_port=0) as found:
            return found

    plain = listen()
    assert (plain.url, plain.fingerprint) == (f"http://127.0.0.1:{plain.port}", "")
    other = listen(host="127.0.0.2")
    assert (other.url, other.tls) == (f"http://127.0.0.2:{other.port}", None)
    chosen = listen(use_tls=True)
    assert chosen.url == f"https://127.0.0.1:{chosen.port}"
    assert not home.tls.stat().st_mode & 0o077

    monkeypatch.setattr(network_lib.address, "is_loopback", lambda host: host == "127.0.0.1")
    remote = listen(host="127.0.0.2")
    assert remote.url == f"https://127.0.0.2:{remote.port}"
    assert remote.fingerprint == chosen.fingerprint != ""
    own = socket.gethostname().lower()
    assert remote.hosts == {f"127.0.0.2:{remote.port}", f"{own}:{remote.port}"}
    insecure = listen(host="127.0.0.2", is_insecure=True)
    assert (insecure.url, insecure.tls) == (f"http://127.0.0.2:{insecure.port}", None)
    assert network_lib.list_names("0.0.0.0", "0.0.0.0") == [own]
    assert network_lib.list_names("::", "::") == [own]
    assert network_lib.list_names("Trainer", "10.0.0.7") == ["trainer", own, "10.0.0.7"]


@pytest.fixture
def routes(url):
    """Returns (method, path) of all addresses that there are, for trial 1 and launch `1-1`."""
    with connection.Connection(address.Address(url, "the-token")) as user:
        schema = user.request("GET", "/api/v1/openapi.json")
    found = [
        (method.upper(), path.replace("{launch_id}", "1-1").replace("{trial_id}", "1"))
        for path, methods in schema["paths"].items()
        for method in methods
    ]
    assert len(found) >= 30
    # `{uuid}` and the like stay as they are.
    return [*found, ("GET", "/api/v1/openapi.json"), ("GET", "/api/v1/agents")]


def ask_all(asked, routes):
    """Holds that nobody is let in to any of some addresses."""
    for method, path in routes:
        body = {} if method in ("POST", "PATCH", "PUT") else None
        with pytest.raises(errors.UnauthorizedError) as refused:
            asked.request(method, path, body=body)
        yield str(refused.value)


def test_no_token_opens_nothing_over_tls_and_tcp(connect, own, url, routes):
    with connection.Connection(address.Address(url), retries=QUICK) as stranger:
        assert all("no token" in text for text in ask_all(stranger, routes))
    assert all("no token" in text for text in ask_all(connect("", own.fingerprint), routes))
    assert all("no token" in text for text in ask_all(connect("x", own.fingerprint), routes))


def test_tokens_open_their_own_addresses_and_no_others(connect, own, home, routes):
    agent = connect(token_files.load(home.agent_token), own.fingerprint)
    others = [route for route in routes if not route[1].startswith("/api/v1/agents")]
    assert all("agents is for" in text for text in ask_all(agent, others))

    launch = connect(KEY.build_token(1, "1-1"), own.fingerprint)
    runs = "/api/v1/trials/1/runs"
    own_ones = [one for one in routes if one[1] == runs or one[1].startswith(f"{runs}/1-1/")]
    assert len(own_ones) >= 6
    others = [route for route in routes if route not in own_ones]
    others += [(method, path.replace("1-1", "1-2")) for method, path in own_ones if path != runs]
    others += [(method, path.replace("s/1/", "s/2/")) for method, path in own_ones]
    assert all("is for the work of trial 1" in text for text in ask_all(launch, others))


def test_master_json_of_a_stranger_is_not_trusted_by_its_words(tmp_path):
    for text, words in (("", "one token"), ("a b", "one token"), ("ä" * 20, "more than a token")):
        (tmp_path / "token").write_text(text)
        with pytest.raises(errors.ConfigError, match=words) as caught:
            token_files.read(tmp_path / "token", name="--token_file")
        assert text == "" or text not in json.dumps(str(caught.value), ensure_ascii=False)
    with pytest.raises(errors.ConfigError, match="No such file"):
        token_files.read(tmp_path / "missing", name="--token_file")


@pytest.fixture
def page(calls, master, home, stops, own):
    """Serves the app over TLS under a name; returns what asks, and what signs in."""
    with contextlib.closing(http_server.listen(0, 0)) as listener:
        port = listener.getsockname()[1]
        url = f"https://trainer:{port}"
        sign_in = sign_in_lib.SignIn(
            url, sessions_lib.Sessions(port=port), own_hosts=[f"trainer:{port}"]
        )
        info = master_status.MasterInfo("1.2.3", str(home.path), url, 12, 34.5)
        served = app_lib.build_app(
            calls, master, info, token="the-token", launch_key=KEY, stop=stops.append,
            services=app_lib.Services(sign_in),
        )  # fmt: skip
        pool = urllib3.HTTPSConnectionPool(
            "127.0.0.1", port, cert_reqs="CERT_NONE", assert_fingerprint=own.fingerprint
        )

        def ask(method, path, host=f"trainer:{port}", **headers):
            given = {key.replace("_", "-"): value for key, value in headers.items()}
            full = f"/{sign_in.sessions.page_path}{path}"
            return pool.urlopen(method, full, headers={"Host": host, **given}, redirect=False)

        with http_server.serve(served, listener, tls=own.context), pool:
            yield ask, sign_in, url, port


def test_a_browser_signs_in_over_tls(page, master):
    ask, sign_in, url, port = page
    link = sign_in.build_link()
    assert link.startswith(f"{url}/{sign_in.sessions.page_path}/sign-in?code=")
    answer = ask("GET", "/sign-in?" + link.partition("?")[2])
    cookie, *attributes = answer.headers["Set-Cookie"].split("; ")
    assert {"Secure", "HttpOnly", "SameSite=Strict"} <= set(attributes)
    assert ask("GET", "/", Cookie=cookie).status == 200
    assert ask("GET", "/api/v1/master", Cookie=cookie).json()["version"] == "1.2.3"

    pause = "/api/v1/experiments/1/pause"
    for origin in (
        f"http://trainer:{port}",
        "https://trainer",
        f"https://127.0.0.1:{port}",
        f"https://trainer:{port}, https://trainer:{port}",
        "null",
    ):
        assert ask("POST", pause, Cookie=cookie, Origin=origin).status == 403
    assert ask("POST", pause, Cookie=cookie).status == 403
    assert master.calls == []
    assert ask("POST", pause, Cookie=cookie, Origin=url).status == 200
    assert len(master.calls) == 1
    assert ask("GET", "/api/v1/master", Cookie=cookie, Sec_Fetch_Site="cross-site").status == 403


def test_a_foreign_name_is_no_name_of_the_master(page):
    ask, _, _, port = page
    for host in ("example.org", f"example.org:{port}", "trainer", f"trainer:{port}.example.org",
                 f"trainer:{port}, example.org", "", f"trainer:{port}@example.org"):  # fmt: skip
        answer = ask("GET", "/api/v1/master", host=host, Authorization="Bearer the-token")
        assert answer.status in (400, 421), host
    answer = ask("GET", "/api/v1/master", host=f"TRAINER:{port}", Authorization="Bearer the-token")
    assert answer.status == 200


def test_events_and_files_come_over_tls(connect, own):
    master = connect("the-token", own.fingerprint)
    with contextlib.closing(master.stream("/api/v1/events")) as lines:
        assert next(line for line in lines if line).startswith(
            ("event", "data", "id", "retry", ":")
        )
    file = io.BytesIO()
    uuid = "0b1c2d3e-0000-0000-0000-000000000001"
    master.download(f"/api/v1/checkpoints/{uuid}/files/weights", file)
    assert file.getvalue() == bytes(range(256)) * 5000
