"""A real browser that is signed in visits pages of strangers on other ports of the machine."""

import http.server
import threading

import pytest

from quintain.client.home import home as home_lib
from quintain.master.placing import slots
from quintain.server import daemon
from quintain.testing import idle_launcher

pytestmark = [pytest.mark.slow, pytest.mark.e2e]

ATTEMPTS = """
async base => {
  const load = (tag, attributes) => new Promise(resolve => {
    const element = Object.assign(document.createElement(tag), attributes);
    element.onload = () => resolve("loaded");
    element.onerror = () => resolve("refused");
    document.body.append(element);
  });
  const ask = (path, options) =>
    fetch(base + path, {credentials: "include", mode: "no-cors", ...options})
      .then(() => "answered", () => "refused");
  const found = {
    read: await ask("api/v1/experiments", {mode: "cors"}),
    readBlindly: await ask("api/v1/experiments"),
    page: await ask(""),
    signOut: await ask("api/v1/master/sign-out-all", {method: "POST"}),
    stop: await ask("api/v1/master/stop", {method: "POST", body: "{}"}),
    script: await load("script", {src: base + "static/app.js"}),
    style: await load("link", {rel: "stylesheet", href: base + "static/style.css"}),
    image: await load("img", {src: base + "static/favicon.svg"}),
    events: await new Promise(resolve => {
      const source = new EventSource(base + "api/v1/events", {withCredentials: true});
      source.onopen = () => resolve("answered");
      source.onerror = () => { source.close(); resolve("refused"); };
    }),
  };
  await load("iframe", {src: base});
  return Object.entries(found).filter(one => one[1] !== "refused").map(String);
}
"""


@pytest.fixture
def server(tmp_path):
    home = home_lib.Home(tmp_path / "home")
    with daemon.MasterServer(
        home, slots=[slots.Slot(0)], launcher=idle_launcher.IdleLauncher()
    ) as server:
        yield server


@pytest.fixture
def stranger():
    """Serves a page with a link on another port, and notes the cookies that it is sent."""
    cookies, links = [], [""]

    class Stranger(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            cookies.append(self.headers.get("Cookie"))
            self.send_response(200)
            self.send_header("Content-Type", "text/html")
            self.end_headers()
            self.wfile.write(f'<body><a href="{links[-1]}">go</a>'.encode())

        def log_message(self, *_):
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Stranger) as served:
        thread = threading.Thread(target=served.serve_forever)
        thread.start()
        yield served.server_port, cookies, links
        served.shutdown()
        thread.join()


def test_pages_of_strangers_learn_and_change_nothing(server, stranger, browser):
    port, cookies, _ = stranger
    context = browser.new_context()
    page = context.new_page()
    page.goto(server.sign_in.build_link())
    page.wait_for_selector("nav")
    base = page.url.partition("#")[0]
    assert [one["path"] for one in context.cookies()] == [f"/{server.sign_in.sessions.page_path}"]

    for name in ("127.0.0.1", "localhost"):
        other = context.new_page()
        other.goto(f"http://{name}:{port}/")
        assert other.evaluate(ATTEMPTS, base) == [], name
        assert other.frames[1].url.startswith("chrome-error:")
        assert other.evaluate("document.cookie") == ""
    assert set(cookies) == {None}
    assert not server.is_stop_requested
    page.reload()
    page.wait_for_selector("nav")


def test_a_link_on_another_site_opens_its_view(server, stranger, browser):
    port, _, links = stranger
    for name in ("127.0.0.1", "localhost"):
        context = browser.new_context()
        page = context.new_page()
        for link in (
            server.sign_in.build_link(),
            f"{server.url}/{server.sign_in.sessions.page_path}/",
        ):
            links.append(f"{link}#/runs")
            page.goto(f"http://{name}:{port}/")
            page.click("a")
            page.wait_for_selector("nav")
            assert page.url.endswith("#/runs")
            page.wait_for_function("document.title.startsWith('Runs')")
        context.close()
