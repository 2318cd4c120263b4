"""The page in a browser."""

import importlib.util
import os
import pathlib
import shutil
import threading

import pytest

MANY_MS = 60_000
"""So long is waited for what a busy machine is slow to show."""

BROWSERS = ("chromium-headless-shell", "chromium", "google-chrome")


def load_fake_server():
    path = pathlib.Path(__file__).parent / "serve_fake.py"
    spec = importlib.util.spec_from_file_location("serve_fake", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


# Not for the session: while it is open, its event loop keeps other tests from running their own.
@pytest.fixture(scope="module")
def browser():
    """A browser without a window; CI has one, others run these tests if they have one."""
    path = next(filter(None, map(shutil.which, BROWSERS)), None)
    if path is None:
        assert not os.environ.get("CI"), f"CI needs one of {', '.join(BROWSERS)}"
        pytest.skip(f"there is no browser ({', '.join(BROWSERS)}) to look at the page with")
    sync_api = pytest.importorskip("playwright.sync_api")
    sync_api.expect.set_options(timeout=MANY_MS)
    with sync_api.sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
        yield started
        started.close()


class Visit:
    """A page of the browser, and all that went wrong in it."""

    def __init__(self, page, pictures):
        self.page = page
        self.faults = []
        self.expected = []
        self._pictures = pictures
        page.set_default_timeout(MANY_MS)
        page.on("console", self._hear)
        page.on("pageerror", lambda error: self.faults.append(str(error)))
        page.on("dialog", lambda dialog: self.faults.append(dialog.message) or dialog.dismiss())

    def open(self, link, place=""):
        self.page.goto(link + (f"#{place}" if place else ""))

    def go(self, place):
        """Goes to another view, as a click on a link would."""
        self.page.evaluate("place => { location.hash = place; }", f"#{place}")

    def wait(self, text):
        """Waits until the page shows a text."""
        self.page.get_by_text(text).first.wait_for()

    def take_picture(self, name):
        """Keeps a picture of the view in both themes."""
        for theme in ("light", "dark"):
            self.page.emulate_media(color_scheme=theme)
            self.page.screenshot(path=self._pictures / f"{name}-{theme}.png")
        self.page.emulate_media(color_scheme="light")

    def _hear(self, message):
        if message.type in ("error", "warning") and not any(
            part in message.text for part in self.expected
        ):
            self.faults.append(message.text)


@pytest.fixture
def visit(browser, tmp_path):
    """A page in a profile of its own, which must have no fault at the end of the test."""
    pictures = pathlib.Path(os.environ.get("QUINTAIN_PICTURES", tmp_path / "pictures"))
    pictures.mkdir(parents=True, exist_ok=True)
    context = browser.new_context(viewport={"width": 1280, "height": 860}, color_scheme="light")
    shown = Visit(context.new_page(), pictures)
    yield shown
    context.close()
    assert shown.faults == []


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

    def opened(server, view, *, may_lose_master=False, expected="", script="", **settings):
        context = browser.new_context(viewport={"width": 1280, "height": 800}, **settings)
        contexts.append(context)
        context.add_init_script(script)
        page = context.new_page()
        page.set_default_timeout(MANY_MS)
        page.on("pageerror", lambda error: complaints.append(str(error)))

        def note(message):
            is_expected = (may_lose_master and "net::ERR" in message.text) or (
                expected and expected in message.text
            )
            if message.type == "error" and not is_expected:
                complaints.append(message.text)

        page.on("console", note)
        page.goto(f"http://127.0.0.1:{server.server_port}/{view}")
        return page

    yield opened
    for context in contexts:
        context.close()
    assert not complaints
