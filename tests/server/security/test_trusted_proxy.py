"""Users whom a proxy names, and those who would like to be them."""

import contextlib
import types

import pytest
import urllib3

from quintain.records import team
from quintain.records.views import master_status
from quintain.server import app as app_lib
from quintain.server.security import access
from quintain.web import http_server
from tests.server.conftest import KEY, TOKEN

HEADER = "X-Forwarded-User"
PROXY = "127.0.0.2"


@pytest.fixture
def ask(calls, master, home, stops):
    """Serves an app behind a proxy at 127.0.0.2; returns what asks, from there if not elsewhere."""
    info = master_status.MasterInfo("1.2.3", str(home.path), "http://testserver", 12, 34.5)
    app = app_lib.build_app(
        calls, master, info, token=TOKEN, launch_key=KEY, stop=stops.append,
        services=app_lib.Services(proxy=access.TrustedProxy(HEADER, PROXY)),
    )  # fmt: skip
    roles = app.state.parts.roles
    roles.grant("anna@x.org", team.Role.VIEWER)
    roles.grant("ed", team.Role.EDITOR)
    with contextlib.ExitStack() as stack:
        listener = stack.enter_context(contextlib.closing(http_server.listen(0, 0)))
        url = f"http://127.0.0.1:{listener.getsockname()[1]}"
        stack.enter_context(http_server.serve(app, listener))
        pools = {
            source: stack.enter_context(urllib3.PoolManager(source_address=(source, 0)))
            for source in (PROXY, "127.0.0.1")
        }

        def send(method, path, user, *, source=PROXY, **more):
            headers = urllib3.HTTPHeaderDict({"Origin": url, **more})
            for name in [user] if isinstance(user, str) else user:
                headers.add(HEADER, name)
            body = None if method == "GET" else b"{}"
            headers["Content-Type"] = "application/json"
            place = url + (path if path == "/" else f"/api/v1{path}")
            answer = pools[source].request(method, place, headers=headers, body=body, retries=False)
            return types.SimpleNamespace(status=answer.status, text=answer.data.decode())

        yield send


def test_a_proxy_names_users_who_may_do_what_their_roles_allow(ask, master):
    assert ask("GET", "/experiments/1", "anna@x.org").status == 200
    assert ask("GET", "/", "anna@x.org").status == 200
    refused = ask("POST", "/experiments/1/pause", "anna@x.org")
    assert refused.status == 403
    assert "User anna@x.org is viewer of all projects" in refused.text
    assert "User bob is without a role" in ask("GET", "/experiments/1", "bob").text
    assert master.calls == []

    assert ask("POST", "/experiments/1/pause", "ed").status == 200
    # What no browser may.
    assert ask("POST", "/experiments", "ed").status == 403
    assert ask("POST", "/master/stop", "ed").status == 403


def test_the_header_counts_for_nothing_from_another_address(ask, master):
    for user in ("ed", "owner", "anna@x.org"):
        assert ask("GET", "/experiments/1", user, source="127.0.0.1").status == 401
        assert ask("POST", "/experiments/1/pause", user, source="127.0.0.1").status == 401
        assert ask("GET", "/", user, source="127.0.0.1").status == 401
    assert master.calls == []


@pytest.mark.parametrize(
    "user", ["owner", "OWNER", "", " ", "a b", "../ed", "ed/..", "ed,anna", ["ed", "ed"], "ä",
             "é\x80", "x" * 65, "-ed", "ed\t"]
)  # fmt: skip
def test_a_name_that_is_none_is_refused_with_words(ask, master, user):
    answer = ask("POST", "/experiments/1/kill", user)
    if user == "ed\t":  # White space around a header is none of it.
        assert answer.status == 200
        return
    assert answer.status == 403
    assert f"{HEADER}: got " in answer.text
    assert "expected at most 64 letters" in answer.text
    assert master.calls == []


def test_a_token_counts_more_than_the_header(ask):
    wrong = ask("GET", "/experiments/1", "ed", Authorization="Bearer wrong")
    assert wrong.status == 401
    owner = ask("GET", "/whoami", "anna@x.org", Authorization=f"Bearer {TOKEN}")
    assert '"owner"' in owner.text


def test_another_page_can_not_use_the_proxy_of_a_user(ask, master):
    evil = {"Origin": "http://evil.example"}
    assert ask("POST", "/experiments/1/kill", "ed", **evil).status == 403
    assert ask("GET", "/experiments/1", "ed", **{"Sec-Fetch-Site": "cross-site"}).status == 403
    assert master.calls == []


@pytest.mark.parametrize(
    ("scheme", "client", "user"),
    [
        ("https", ("10.0.0.9", 5), "ed"),
        ("http", ("10.0.0.9", 5), None),
        ("https", ("10.0.0.8", 5), None),
        ("https", ("::ffff:10.0.0.9", 5), "ed"),
        ("https", ("::ffff:10.0.0.8", 5), None),
        ("https", None, None),
    ],
)
def test_only_tls_or_loopback_are_trusted_and_no_unix_socket(scheme, client, user):
    proxy = access.TrustedProxy(HEADER, "10.0.0.9")
    scope = {"scheme": scheme, "client": client, "headers": [(b"x-forwarded-user", b"ed")]}
    assert proxy.find_user({"type": "http", **scope}) == user
