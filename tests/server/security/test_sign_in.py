import asyncio
import contextlib
import http.client
import http.server
import logging
import queue
import re
import threading
import types
import urllib.parse

import pytest
import urllib3
from starlette import responses

from quintain.master.processes import launch_tokens
from quintain.records.views import master_status
from quintain.server import app as app_lib
from quintain.server.routes import page as page_routes
from quintain.server.security import sessions as sessions_lib
from quintain.server.security import sign_in as sign_in_lib
from quintain.web import http_server

TOKEN = "the-token"
KEY = launch_tokens.LaunchKey(bytes(32))
LAUNCH = KEY.build_token(1, "1-1")
PROXY_NAME = "quintain.example.org"
DIRECTORY = page_routes.DIRECTORY
OWN_FILES = (
    "sign_in.html", "used_link.html", "arriving.html", "arriving.js", "sign_in.css",
)  # fmt: skip


@pytest.fixture
def served(calls, master, home, stops, monkeypatch):
    """Serves an app; returns its address, what signs in, and the app."""
    monkeypatch.setattr(page_routes, "DIRECTORY", make_page(home))
    with contextlib.closing(http_server.listen(0, 0)) as listener:
        port = listener.getsockname()[1]
        url = f"http://127.0.0.1:{port}"
        info = master_status.MasterInfo("1.2.3", str(home.path), url, 12, 34.5)
        sign_in = sign_in_lib.SignIn(url, sessions_lib.Sessions(port=port), hosts=[PROXY_NAME])
        app = app_lib.build_app(
            calls, master, info, token=TOKEN, launch_key=KEY, stop=stops.append,
            services=app_lib.Services(sign_in),
        )  # fmt: skip
        with http_server.serve(app, listener):
            yield types.SimpleNamespace(url=url, sign_in=sign_in, app=app, port=port)


def make_page(home):
    """Returns a small page beside files that are nobody's."""
    page = home.path / "page"
    (page / "vendor").mkdir(parents=True)
    for name in OWN_FILES:
        (page / name).write_bytes((DIRECTORY / name).read_bytes())
    (page / "index.html").write_text("<!doctype html><title>The page</title>")
    (page / "vendor" / "a.js").write_text("export const a = 'ä';\n")
    (page / "secret.py").write_text("secret")
    (home.path / "secret.js").write_text("secret")
    (page / "out.js").symlink_to(home.path / "secret.js")
    return page


@pytest.fixture
def ask(served):
    """Returns a function that sends a request as it is; paths begin after the page's own."""
    with urllib3.PoolManager(maxsize=1, retries=False) as pool:

        def send(method, path, *, body=None, root=False, **headers):
            start = served.url if root else f"{served.url}/{served.sign_in.sessions.page_path}"
            if body is not None:
                headers["Content-Type"] = "application/json"
            return pool.urlopen(
                method,
                start + path,
                headers={name.replace("_", "-"): value for name, value in headers.items()},
                body=body,
                redirect=False,
            )

        yield send


@pytest.fixture
def cookie(ask, served):
    """Returns the header of a browser that is signed in."""
    answer = ask("GET", "/sign-in?code=" + served.sign_in.codes.build())
    return answer.headers["Set-Cookie"].partition(";")[0]


def test_a_link_opens_the_page_once(ask, served):
    answer = ask(
        "POST", "/api/v1/master/sign-in", root=True, body=b"{}", Authorization=f"Bearer {TOKEN}"
    )
    link = answer.json()["url"]
    start = f"{served.url}/{served.sign_in.sessions.page_path}/sign-in?code="
    assert link.startswith(start)
    code = link.removeprefix(start)
    assert re.fullmatch(r"[\w-]{32}", code)

    answer = ask("GET", f"/sign-in?code={code}")
    assert (answer.status, answer.headers["Location"]) == (303, "./")
    given, *attributes = answer.headers["Set-Cookie"].split("; ")
    assert given.startswith(f"quintain-session-{served.port}=")
    # Without a path it is good for the directory of the link, which nobody else knows.
    assert attributes == ["Max-Age=2592000", "HttpOnly", "SameSite=Strict"]
    page = ask("GET", "/", Cookie=given)
    assert (page.status, page.headers["Vary"]) == (200, "Cookie")
    assert b"The page" in page.data
    assert ask("GET", "/api/v1/master", Cookie=given).json()["version"] == "1.2.3"

    again = ask("GET", f"/sign-in?code={code}")
    assert again.status == 403
    assert "Set-Cookie" not in again.headers
    assert b"quintain ui" in again.data
    # Who has opened it is not bothered.
    assert ask("GET", f"/sign-in?code={code}", Cookie=given).status == 303


def test_looking_at_a_link_does_not_use_it(ask, served):
    code = served.sign_in.codes.build()
    for method, headers in (
        ("HEAD", {}),
        ("GET", {"Sec_Purpose": "prefetch;prerender"}),
        ("POST", {}),
    ):
        assert ask(method, f"/sign-in?code={code}", **headers).status in (401, 503)
    assert ask("GET", f"/sign-in?code={code}", root=True).status == 403
    assert ask("GET", f"/sign-in?code={code}").status == 303


UNKNOWN_CODES = [
    "",
    "?code=",
    "?code=a",
    "?code=%00",
    "?code=%ff",
    "?code=" + "a" * 9000,
    "?CODE=a",
]


def test_an_unknown_code_is_refused(ask):
    for query in UNKNOWN_CODES:
        answer = ask("GET", f"/sign-in{query}")
        assert answer.status in (400, 403)
        assert "Set-Cookie" not in answer.headers


def test_codes_end():
    clock = types.SimpleNamespace(secs=0.0)
    codes = sign_in_lib.Codes(lambda: clock.secs)
    in_time, late, lasting = codes.build(), codes.build(), codes.build(stays=True)
    clock.secs = sign_in_lib.CODE_SECS - 1
    assert codes.use(in_time)
    clock.secs += 1
    assert not codes.use(late)
    clock.secs = 1e9
    assert codes.use(lasting)
    assert not codes.use(lasting)


def test_no_more_codes_wait_than_there_may_be():
    codes = sign_in_lib.Codes()
    lasting = codes.build(stays=True)
    made = [codes.build() for _ in range(sign_in_lib.MAX_CODES + 1)]
    assert [codes.use(code) for code in made] == [None] + ["owner"] * sign_in_lib.MAX_CODES
    assert codes.use(lasting)


def test_without_a_cookie_words_say_what_to_do(ask, served):
    for answer in (ask("GET", "/"), ask("GET", "/", root=True), ask("HEAD", "/")):
        assert answer.status == 401
        assert answer.headers["Content-Type"].startswith("text/html")
    assert b"quintain ui" in ask("GET", "/").data
    slashless = ask("GET", "")
    path = served.sign_in.sessions.page_path
    assert (slashless.status, slashless.headers["Location"]) == (303, f"{path}/")


def test_the_way_from_another_site_takes_a_step_in_between(ask, cookie):
    """Browsers leave the cookie away until a page of our own asks."""
    answer = ask("GET", "/", Sec_Fetch_Site="cross-site")
    assert answer.status == 200
    assert b'src="static/arriving.js"' in answer.data
    assert b"?arrived" in ask("GET", "/static/arriving.js").data
    assert ask("GET", "/?arrived", Sec_Fetch_Site="same-origin", Cookie=cookie).status == 200
    # Nor does it go in circles.
    assert ask("GET", "/?arrived", Sec_Fetch_Site="cross-site").status == 401


def test_a_cookie_of_somebody_else_opens_nothing(ask, served, cookie):
    name, _, value = cookie.partition("=")
    others = sessions_lib.Sessions(port=served.port).begin()
    changed = value[:-1] + ("0" if value[-1] != "0" else "1")
    for wrong in (
        f"{name}={others}",
        f"{name}={changed}",
        f"{name}=",
        name,
        f"quintain-session-{served.port + 1}={value}",
        f"{name.upper()}={value}",
        f"{name} ={value}x",
        value,
        f"{name}={TOKEN}",
        f"{name}={LAUNCH}",
    ):
        assert ask("GET", "/api/v1/master", Cookie=wrong).status == 401, wrong
        assert ask("GET", "/", Cookie=wrong).status == 401, wrong
    # But it hides no good one.
    both = f"{name}={others}; a=b; {name}={value}"
    assert ask("GET", "/api/v1/master", Cookie=both).status == 200


def test_a_cookie_does_not_help_a_wrong_token(ask, cookie):
    for wrong in ("Bearer wrong", "Bearer ", "", "Basic the-token"):
        answer = ask("GET", "/api/v1/master", Cookie=cookie, Authorization=wrong)
        assert answer.status == 401, wrong


NOT_FOR_BROWSERS = [
    ("POST", "/api/v1/master/sign-in"),
    ("POST", "/api/v1/trials/1/runs"),
    ("POST", "/api/v1/trials/1/runs/1-1/results"),
    ("POST", "/api/v1/trials/1/runs/1-1/exit"),
    ("POST", "/api/v1/trials/1/runs/1-1/damage"),
    ("PUT", "/api/v1/trials/1/runs/1-1/wait"),
    ("PUT", "/api/v1/trials/1/runs/1-1/steps"),
    ("GET", "/api/v1/trials/1/runs/1-1/workload?wait=0"),
    ("GET", "/api/v1/trials/1/%72uns/1-1/workload?wait=0"),
    ("POST", "/api/v1/trials/%31/runs/a%0A"),
    # Routes are found despite a line's end.
    ("POST", "/api/v1/master/sign-in%0A"),
    ("POST", "/api/v1/trials/1/runs%0A"),
    ("POST", "/api/v1/trials/1%0A/runs"),
]


def test_a_cookie_opens_neither_links_nor_the_work_of_trials(ask, cookie, served, master):
    for method, path in NOT_FOR_BROWSERS:
        body = b"{}" if method == "POST" else None
        answer = ask(method, path, body=body, Cookie=cookie, Origin=served.url)
        assert answer.status == 403, answer.data
        assert b"signed in may not" in answer.data
        assert master.results == []


def test_the_page_may_do_what_people_do(ask, cookie, served, master):
    for method, path, body in (
        ("POST", "/api/v1/experiments/1/pause", None),
        ("PATCH", "/api/v1/experiments/1", b'{"description": "good"}'),
        ("POST", "/api/v1/trials/1/kill", b"{}"),
    ):
        answer = ask(method, path, body=body, Cookie=cookie, Origin=served.url)
        assert answer.status == 200, answer.data
    assert len(master.calls) == 3


STRANGE_ORIGINS = [
    None,
    "",
    "null",
    "http://127.0.0.1",
    "http://127.0.0.1:1",
    "http://localhost:{port}",
    "https://127.0.0.1:{port}",
    "ftp://127.0.0.1:{port}",
    "127.0.0.1:{port}",
    "http://127.0.0.1:{port}/",
    "http://127.0.0.1:{port}.example.org",
    "http://example.org#127.0.0.1:{port}",
    "http://127.0.0.1:{port}, http://127.0.0.1:{port}",
    f"https://{PROXY_NAME}",
]


def test_nothing_is_changed_for_another_page(ask, cookie, served, master, stops):
    for origin in STRANGE_ORIGINS:
        headers = {} if origin is None else {"Origin": origin.format(port=served.port)}
        for method, path in (
            ("POST", "/api/v1/experiments/1/pause"),
            ("POST", "/api/v1/master/stop"),
            ("DELETE", "/api/v1/experiments/1"),
            ("POST", "/api/v1/master/sign-out"),
            ("BREW", "/api/v1/experiments/1/pause"),
        ):
            answer = ask(method, path, body=b"{}", Cookie=cookie, **headers)
            assert answer.status == 403, (origin, answer.data)
            assert b"Origin: got" in answer.data
        assert (master.calls, stops) == ([], [])
        assert ask("GET", "/api/v1/master", Cookie=cookie).status == 200


def test_nothing_is_told_to_another_page(ask, cookie, served):
    """Another port of this machine is the same site: browsers let it ask with the cookie."""
    for site in ("cross-site", "same-site", "sideways"):
        headers = {"Cookie": cookie, "Sec_Fetch_Site": site}
        assert ask("GET", "/api/v1/master", **headers).status == 403
        assert ask("HEAD", "/api/v1/master", **headers).status == 403
        answer = ask("POST", "/api/v1/experiments/1/pause", Origin=served.url, **headers)
        assert answer.status == 403
        for own in ("same-origin", "none"):
            assert ask("GET", "/api/v1/master", Cookie=cookie, Sec_Fetch_Site=own).status == 200


def test_a_proxy_is_asked_by_its_own_name(ask, cookie, served, master):
    for scheme in ("http", "https"):
        own = {"Host": PROXY_NAME, "Origin": f"{scheme}://{PROXY_NAME}"}
        assert ask("POST", "/api/v1/experiments/1/pause", Cookie=cookie, **own).status == 200
    for origin in (served.url, f"ftp://{PROXY_NAME}", f"https://{PROXY_NAME}:444"):
        strange = {"Host": PROXY_NAME, "Origin": origin}
        assert ask("POST", "/api/v1/experiments/1/pause", Cookie=cookie, **strange).status == 403
    assert len(master.calls) == 2


def test_signing_out_ends_one_session_or_all(ask, cookie, served):
    def begin():
        answer = ask("GET", "/sign-in?code=" + served.sign_in.codes.build())
        return answer.headers["Set-Cookie"].partition(";")[0]

    other, token = begin(), {"Authorization": f"Bearer {TOKEN}"}
    refused = ask("POST", "/api/v1/master/sign-out", **token)
    assert (refused.status, refused.json()["error"]["kind"]) == (409, "StateError")

    own = {"Cookie": cookie, "Origin": served.url}
    assert ask("POST", "/api/v1/master/sign-out", **own).status == 200
    assert ask("POST", "/api/v1/master/sign-out", **own).status == 401
    assert ask("GET", "/api/v1/master", Cookie=cookie).status == 401
    assert ask("GET", "/api/v1/master", Cookie=other).status == 200

    assert ask("POST", "/api/v1/master/sign-out-all", **token).status == 200
    assert ask("GET", "/api/v1/master", Cookie=other).status == 401


def test_events_end_with_the_session(served, cookie):
    steps, is_over = queue.SimpleQueue(), threading.Event()

    @served.app.get("/api/v1/events")
    def tell():
        async def read():
            try:
                while True:
                    if not steps.empty():
                        yield steps.get()
                    await asyncio.sleep(0.01)
            finally:
                is_over.set()

        return responses.StreamingResponse(read(), media_type="text/event-stream")

    url = f"{served.url}/{served.sign_in.sessions.page_path}/api/v1/events"
    steps.put("one")
    with urllib3.request("GET", url, headers={"Cookie": cookie}, preload_content=False) as answer:
        assert answer.read1() == b"one"
        assert served.sign_in.is_page_open
        served.sign_in.sessions.end_all()
        steps.put("two")
        assert answer.read() == b""
    assert is_over.wait(60)


def test_the_token_of_a_launch_opens_no_page(ask, served):
    bearer = {"Authorization": f"Bearer {LAUNCH}"}
    assert ask("GET", "/", **bearer).status == 401
    for path in (
        "/api/v1/master/sign-in",
        "/api/v1/master/sign-out",
        "/api/v1/master/sign-out-all",
    ):
        for root in (True, False):
            assert ask("POST", path, body=b"{}", root=root, **bearer).status == 403


def test_files_of_the_page_are_served_with_what_they_are(ask):
    answer = ask("GET", "/static/vendor/a.js")
    assert answer.status == 200
    assert answer.headers["Content-Type"] == "text/javascript; charset=utf-8"
    assert answer.headers["Cache-Control"] == "no-cache"
    assert answer.data.decode() == "export const a = 'ä';\n"
    head = ask("HEAD", "/static/vendor/a.js")
    assert (head.status, head.data, head.headers["Content-Length"]) == (200, b"", "23")

    etag = answer.headers["ETag"]
    for known in (etag, f"W/{etag}", f'"a", {etag}'):
        again = ask("GET", "/static/vendor/a.js", If_None_Match=known)
        assert (again.status, again.data, again.headers["ETag"]) == (304, b"", etag)
    assert ask("GET", "/static/vendor/a.js", If_None_Match='"a"').status == 200


def test_browsers_keep_files_for_good_until_one_has_changed(ask, cookie, home):
    page = home.path / "page"
    (page / "index.html").write_text('<script src="static/vendor/a.js"></script>')

    def find_link():
        return ask("GET", "/", Cookie=cookie).data.decode().split('"')[1]

    link = find_link()
    assert re.fullmatch(r"static/v-[0-9a-f]{16}/vendor/a\.js", link)
    answer = ask("GET", f"/{link}")
    assert answer.headers["Cache-Control"] == "max-age=31536000, immutable"
    assert answer.data.decode() == "export const a = 'ä';\n"
    assert find_link() == link

    (page / "vendor" / "a.js").write_text("export const a = 'changed';\n")
    assert find_link() != link
    assert b"changed" in ask("GET", "/" + find_link()).data
    for name in ("static/v-1/vendor/a.js", "static/v-0123456789abcdef/../secret.js"):
        assert ask("GET", f"/{name}").status == 404


STRANGE_NAMES = [
    "{home}/secret.js", "../secret.js", "vendor/../../secret.js", "%2e%2e/secret.js", "~/secret.js",
    "..%2fsecret.js", "..%5csecret.js", "....//secret.js", "%2fetc/passwd", "/etc/passwd", "out.js",
    "secret.py", "vendor", "vendor/", "", ".", "..", "a.js%00.html", "nothing.js", "%ff.js",
    "a" * 300 + ".js", "%ed%a0%80.js", "index.html/", "index.html/a.js",
]  # fmt: skip


def test_no_other_files_are_served(served, home):
    client = http.client.HTTPConnection("127.0.0.1", served.port)
    with contextlib.closing(client):
        for name in STRANGE_NAMES:
            # As it is: other clients take steps upwards themselves.
            client.request("GET", "/static/" + name.format(home=home.path))
            answer = client.getresponse()
            text = answer.read().decode()
            assert answer.status in (400, 404), (name, text)
            assert text.replace("secret.js", "").replace("secret.py", "").count("secret") == 0


def test_every_answer_is_kept_to_this_page(ask, served, cookie, monkeypatch):
    @served.app.get("/api/v1/fault")
    def fail():
        raise RuntimeError("secret")

    monkeypatch.setattr(logging.getLogger("uvicorn.error"), "disabled", True)
    own, token = served.url, {"Authorization": f"Bearer {TOKEN}"}
    for status, answer in (
        (200, ask("GET", "/", Cookie=cookie)),
        (401, ask("GET", "/")),
        (303, ask("GET", "/sign-in?code=" + served.sign_in.codes.build())),
        (403, ask("GET", "/sign-in?code=a")),
        (404, ask("GET", "/static/nothing.js")),
        (200, ask("GET", "/static/sign_in.css")),
        (200, ask("GET", "/api/v1/experiments", Cookie=cookie)),
        (401, ask("GET", "/api/v1/experiments")),
        (403, ask("GET", "/api/v1/nothing", Cookie=cookie)),
        (404, ask("GET", "/api/v1/nothing", **token)),
        (405, ask("PUT", "/api/v1/experiments", **token)),
        (400, ask("POST", "/api/v1/experiments/check", body=b"{", Cookie=cookie, Origin=own)),
        (421, ask("GET", "/", Host="example.org")),
        (421, ask("GET", "/static/sign_in.css", Host="example.org")),
        (414, ask("GET", "/" + "a" * 20_000)),
        (500, ask("GET", "/api/v1/fault", **token)),
    ):
        assert answer.status == status, answer.data
        headers = answer.headers
        assert headers["Content-Security-Policy"] == (
            "default-src 'self'; frame-ancestors 'none'; base-uri 'none'; form-action 'self'"
        )
        assert headers["X-Content-Type-Options"] == "nosniff"
        assert headers["Referrer-Policy"] == "no-referrer"
        assert headers["Cross-Origin-Resource-Policy"] == "same-origin"
        assert headers["Cross-Origin-Opener-Policy"] == "same-origin"
        assert headers["Cache-Control"] in ("no-store", "no-cache")
        assert b"secret" not in answer.data


def test_codes_and_cookies_are_not_logged(ask, served, caplog):
    caplog.set_level(logging.DEBUG)
    code = served.sign_in.codes.build()
    answer = ask("GET", f"/sign-in?code={code}")
    ask("GET", f"/sign-in?code={code}")
    cookie = answer.headers["Set-Cookie"].partition(";")[0]
    ask("GET", "/api/v1/nothing", Cookie=cookie)
    # This client logs what it asks; the server does not.
    lines = [one.getMessage() for one in caplog.records if not one.name.startswith("urllib3")]
    assert code not in "\n".join(lines)
    assert cookie.partition("=")[2] not in "\n".join(lines)
    assert code not in repr(vars(served.sign_in.codes))


@contextlib.contextmanager
def open_proxy(url, prefix, name):
    """Serves what is at `url` below another path, as nginx does, and returns its address."""

    class Proxy(http.server.BaseHTTPRequestHandler):
        def answer(self):
            body = self.rfile.read(int(self.headers.get("Content-Length", 0))) or None
            assert self.path.startswith(prefix)
            headers = {**self.headers, "Host": name, "X-Forwarded-Proto": "https"}
            answer = urllib3.request(
                self.command, url + self.path.removeprefix(prefix), headers=headers, body=body,
                redirect=False, retries=False,
            )  # fmt: skip
            self.send_response(answer.status)
            for key, value in answer.headers.items():
                if key.lower() not in ("date", "server"):
                    self.send_header(key, value)
            self.end_headers()
            self.wfile.write(answer.data)

        do_GET = do_POST = answer  # noqa: N815

        def log_message(self, *_):
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Proxy) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}{prefix}"
        server.shutdown()
        thread.join()


def test_it_works_below_a_path_of_a_proxy(served, master):
    secret = served.sign_in.sessions.page_path
    with open_proxy(served.url, "/tools/quintain", PROXY_NAME) as url:

        def go(method, address, **headers):
            return urllib3.request(method, address, headers=headers, redirect=False)

        link = f"{url}/{secret}/sign-in?code={served.sign_in.codes.build()}"
        answer = go("GET", link)
        page = urllib.parse.urljoin(link, answer.headers["Location"])
        assert page == f"{url}/{secret}/"
        cookie, *attributes = answer.headers["Set-Cookie"].split("; ")
        assert attributes[-1] == "Secure"
        assert not [one for one in attributes if one.startswith("Path")]
        assert b"The page" in go("GET", page, Cookie=cookie).data
        style = go("GET", urllib.parse.urljoin(page, "static/sign_in.css"))
        assert style.status == 200
        pause = urllib.parse.urljoin(page, "api/v1/experiments/1/pause")
        assert go("POST", pause, Cookie=cookie, Origin=f"https://{PROXY_NAME}").status == 200
        assert go("POST", pause, Cookie=cookie, Origin="https://example.org").status == 403
        bare = go("GET", page.rstrip("/"), Cookie=cookie)
        assert urllib.parse.urljoin(page.rstrip("/"), bare.headers["Location"]) == page
    assert len(master.calls) == 1


def test_the_page_counts_as_open_while_it_asks(served, ask, cookie, monkeypatch):
    monkeypatch.setattr(sign_in_lib, "_LINGER_SECS", 0.0)
    assert not served.sign_in.is_page_open
    served.sign_in.build_link(stays=True)
    assert not served.sign_in.is_wanted
    with served.sign_in.answering():
        assert served.sign_in.is_page_open
        assert served.sign_in.is_wanted
    assert not served.sign_in.is_page_open
    monkeypatch.setattr(sign_in_lib, "_LINGER_SECS", 1e9)
    ask("GET", "/api/v1/master", Cookie=cookie)
    assert served.sign_in.is_page_open
