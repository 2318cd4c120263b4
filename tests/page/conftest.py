"""The page in a browser, served with made-up data."""

import importlib.util
import pathlib
import shutil
import threading

import pytest

BROWSER = shutil.which("chromium-headless-shell")


def load_fake_server():
    path = pathlib.Path(__file__).parent / "serve_fake.py"
    spec = importlib.util.spec_from_file_location("serve_fake", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="session")
def browser():
    """A browser without a window; where there is none, its tests are left out."""
    playwright = pytest.importorskip("playwright.sync_api")
    if BROWSER is None:
        pytest.skip("there is no chromium-headless-shell here")
    with playwright.sync_playwright() as running:
        opened = running.chromium.launch(executable_path=BROWSER, args=["--no-sandbox"])
        yield opened
        opened.close()


@pytest.fixture
def serve():
    """Serves made-up data until the test is over; returns the server."""
    servers, threads = [], []

    def start(**settings):
        server = load_fake_server().build_server(**settings)
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        servers.append(server)
        threads.append(thread)
        return server

    yield start
    for server in servers:
        server.stop()
    for thread in threads:
        thread.join()


@pytest.fixture
def open_page(browser):
    """Opens a view of a server; the test fails if the page complains in the console."""
    contexts, complaints = [], []

    def opened(server, view, *, may_lose_master=False, **settings):
        context = browser.new_context(viewport={"width": 1280, "height": 800}, **settings)
        contexts.append(context)
        page = context.new_page()
        page.set_default_timeout(20_000)
        page.on("pageerror", lambda error: complaints.append(str(error)))

        def note(message):
            if message.type == "error" and not (may_lose_master and "net::ERR" in message.text):
                complaints.append(message.text)

        page.on("console", note)
        page.goto(f"http://127.0.0.1:{server.server_port}/{view}")
        return page

    yield opened
    for context in contexts:
        context.close()
    assert not complaints
