"""Every address of a master with every kind of token: the table says who may ask."""

import contextlib
import pathlib
import re
import socket
import ssl

import fastapi
import pytest

from quintain import errors
from quintain.client.home import token_files
from quintain.master.processes import launch_tokens
from quintain.records import team
from quintain.records.views import master_status
from quintain.server import app as app_lib
from quintain.server.http import certificates, responses
from quintain.server.routes import page as page_routes
from quintain.server.security import path_rules
from quintain.server.security import sessions as sessions_lib
from quintain.server.security import sign_in as sign_in_lib
from quintain.web import http_server

TOKEN = "the-token"
KEY = launch_tokens.LaunchKey(bytes(32))
OWN_HOST = "127.0.0.1"
GOOD = {"trial_id": "1", "launch_id": "1-1", "experiment_id": "1", "uuid": "0b1c2d3e"}
PAGE = pathlib.Path(__file__).parents[2] / "docs" / "reference" / "addresses.md"
KINDS = (
    ("user's token", path_rules.Client.USER),
    ("page", path_rules.Client.PAGE),
    ("launch", path_rules.Client.LAUNCH),
    ("agents' token", path_rules.Client.AGENT),
    ("metrics' token", path_rules.Client.METRICS),
)
ADDRESSES = [
    (method, path, rule.clients)
    for path, methods in path_rules.TABLE.items()
    for method, rule in methods.items()
]


def describe():
    """Returns the table as the documentation has it."""
    lines = ["| address | " + " | ".join(name for name, _ in KINDS) + " | role of users |"]
    lines.append("|---|" + "---|" * (len(KINDS) + 1))
    for path, methods in path_rules.TABLE.items():
        cells = (
            ", ".join(method for method, rule in methods.items() if client in rule.clients)
            for _, client in KINDS
        )
        asked = [rule.role for rule in methods.values() if path_rules.Client.USER in rule.clients]
        roles = ", ".join(dict.fromkeys(asked))
        lines.append(" | ".join([f"| `{path.replace(':path', '')}`", *cells, roles]) + " |")
    return "\n".join(lines)


def test_the_documentation_has_the_table():
    assert describe() in PAGE.read_text(), describe()


def test_the_table_has_the_addresses_of_a_master_and_no_others(app):
    known = {
        (method, path.replace(":path", "").removeprefix(responses.PREFIX))
        for method, path, _ in ADDRESSES
    }
    found = {
        (method.upper(), path.removeprefix(responses.PREFIX))
        for path, methods in app.openapi()["paths"].items()
        for method in methods
    }
    assert known - found == {("GET", "/openapi.json")}
    assert found - known == set()


def test_an_address_that_nobody_was_named_for_keeps_a_master_from_starting(monkeypatch, request):
    shorter = {path: rule for path, rule in path_rules.TABLE.items() if "drain" not in path}
    monkeypatch.setattr(path_rules, "TABLE", shorter)
    with pytest.raises(errors.RegistryError, match=r"POST /nodes/\{name\}/drain: .*TABLE"):
        request.getfixturevalue("app")


def test_another_method_and_a_socket_of_the_web_need_a_line_as_well():
    router = fastapi.APIRouter()
    router.add_api_route("/nodes", print, methods=["GET", "PUT"])
    with pytest.raises(errors.RegistryError, match="PUT /nodes"):
        path_rules.check_routes(router.routes, "")
    router = fastapi.APIRouter()
    router.add_api_websocket_route("/nodes", print)
    with pytest.raises(errors.RegistryError, match="APIWebSocketRoute /nodes"):
        path_rules.check_routes(router.routes, "")


def test_an_address_that_several_lines_fit_is_for_those_whom_all_of_them_name():
    user, admin = path_rules.Client.USER, team.Role.ADMIN
    assert path_rules.find_rule("GET", "/checkpoints/orphans")[0].clients == user
    for path in ("/nothing", "", "nodes", "/", "//nodes", "/agents", "/agents/a/b"):
        assert path_rules.find_rule("GET", path) == (path_rules.Rule(user, admin), [])
    assert path_rules.find_rule("BREW", "/master")[0] == path_rules.Rule(user, admin)


def test_the_page_asks_for_what_it_may_and_for_all_of_it():
    text = "\n".join(path.read_text() for path in sorted(page_routes.DIRECTORY.rglob("*.js")))
    text = re.sub(r"\$\{name\.split[^}]*\}", "${name}", text)
    asked = {
        re.sub(r"\$\{[^}]*\}", "{}", found)
        for found in re.findall(r"[\"`](/[a-z-]+(?:/(?:\$\{[^}]*\}|[a-z.-]+))*)[\"`]", text)
    }
    # Its text is put together of two: `${path}.tar`.
    asked |= {"/checkpoints/{}/export.tar"} if "`${path}.tar`" in text else set()
    allowed = {
        re.sub(r"\{[^}]*\}", "{}", path)
        for _, path, clients in ADDRESSES
        if path_rules.Client.PAGE in clients
    }

    assert allowed - asked == set()
    # These are places within the page, not addresses.
    assert {path for path in asked - allowed if path.startswith("/master")} == set()
    for path in ("/experiments", "/runs/folders", "/uploads", "/master/stop"):
        assert path_rules.Client.PAGE not in path_rules.find_rule("POST", path)[0].clients


class Asker:
    """Sends requests over a connection that stays open, byte by byte as it says."""

    def __init__(self, connected, scheme, host):
        self._connected = connected
        self._stream = connected.makefile("rb")
        self.origin = f"{scheme}://{host}"
        self._host = host

    def ask(self, method, path, headers):
        """Returns the status of a request whose body nobody takes for anything."""
        head = {"Host": self._host, "Content-Type": "text/plain", "Content-Length": "1", **headers}
        lines = "".join(f"{name}: {value}\r\n" for name, value in head.items())
        self._connected.sendall(f"{method} {path} HTTP/1.1\r\n{lines}\r\nx".encode())
        status = int(self._stream.readline().split()[1])
        length = 0
        while (line := self._stream.readline().strip().lower()) != b"":
            if line.startswith(b"content-length:"):
                length = int(line.partition(b":")[2])
        self._stream.read(length)
        return status

    def close(self):
        self._stream.close()


@pytest.fixture(params=["plain", "tls", "unix"])
def asker(request, calls, master, home, stops, feed, tmp_path):
    """Serves an app in one of the ways that a master has; gives what asks, and its cookies."""
    with contextlib.ExitStack() as stack:
        listener = stack.enter_context(contextlib.closing(http_server.listen(0, 0)))
        host = f"{OWN_HOST}:{listener.getsockname()[1]}"
        certificate, scheme = None, "http"
        if request.param == "tls":
            certificate, scheme = certificates.load_own(tmp_path / "tls", []), "https"
        elif request.param == "unix":
            listener = stack.enter_context(socket.socket(socket.AF_UNIX))
            listener.bind(str(tmp_path / "own.sock"))
            listener.listen()
        sign_in = sign_in_lib.SignIn(f"{scheme}://{host}", sessions_lib.Sessions(port=1))
        info = master_status.MasterInfo("1.2.3", str(home.path), f"{scheme}://{host}", 12, 34.5)
        app = app_lib.build_app(
            calls, master, info, token=TOKEN, launch_key=KEY, stop=stops.append,
            services=app_lib.Services(sign_in, feed),
        )  # fmt: skip
        tls = None if certificate is None else certificate.context
        stack.enter_context(http_server.serve(app, listener, tls=tls))
        connected = stack.enter_context(socket.socket(listener.family))
        connected.settimeout(60)
        connected.connect(listener.getsockname())
        if certificate is not None:
            connected = stack.enter_context(_begin_tls(connected))
        asking = stack.enter_context(contextlib.closing(Asker(connected, scheme, host)))
        yield asking, sign_in.sessions


def _begin_tls(connected):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return context.wrap_socket(connected)


def bearer(token):
    return {"Authorization": f"Bearer {token}"}


@pytest.mark.long("The table is the same however one is connected", but=["tls"])
@pytest.mark.slow
def test_every_address_answers_those_whom_the_table_names(asker, home, master, stops):
    asking, sessions = asker
    former = token_files.load(home.agent_token)
    token_files.renew(home.agent_token)
    ended = sessions.begin()
    sessions.end(sessions.find(ended))
    page = {"Origin": asking.origin}
    cookie = f"{sessions.cookie_name}="
    strangers = [
        {},
        bearer("wrong"),
        bearer(launch_tokens.LaunchKey(bytes(31) + b"1").build_token(1, "1-1")),
        bearer(former),
        {"Cookie": cookie + ended, **page},
        {"Cookie": cookie + sessions_lib.Sessions(port=1).begin(), **page},
    ]
    known = [
        (path_rules.Client.USER, bearer(TOKEN)),
        (path_rules.Client.USER, bearer(token_files.load(home.user_token))),
        (path_rules.Client.AGENT, bearer(token_files.load(home.agent_token))),
        (path_rules.Client.METRICS, bearer(token_files.load(home.metrics_token))),
        (path_rules.Client.LAUNCH, bearer(KEY.build_token(1, "1-1"))),
        (path_rules.Client.PAGE, {"Cookie": cookie + sessions.begin(), **page}),
        # Launches of which nothing here is.
        (None, bearer(KEY.build_token(1, "1-2"))),
        (None, bearer(KEY.build_token(2, "1-1"))),
    ]
    for method, path, clients in ADDRESSES:
        address = responses.PREFIX + re.sub(
            r"\{(\w+)(:path)?\}", lambda found: GOOD.get(found[1], "a"), path
        )
        for headers in strangers:
            assert asking.ask(method, address, headers) == 401, (method, path, headers)
        for client, headers in known:
            given = asking.ask(method, address, headers)
            shown = (method, path, client, headers, given)
            if client is None:
                # A start of the same trial is known by what it says of itself.
                is_start = path == "/trials/{trial_id}/runs" and "1/1-2/" in str(headers)
                assert given == 403 or is_start, shown
            elif client in clients:
                # The body is refused, behind the tokens and before anything is done.
                assert given in (415, 400), shown
            else:
                assert given == 403, shown
    assert (master.calls, master.results, stops) == ([], [], [])
