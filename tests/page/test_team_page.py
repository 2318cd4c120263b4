"""What a viewer and the owner see of users and changes, in a browser over a real master."""

import pytest

from quintain.client.home import home as home_lib
from quintain.master.placing import slots
from quintain.records import team
from quintain.server import daemon
from quintain.testing import idle_launcher

expect = pytest.importorskip("playwright.sync_api").expect

pytestmark = [pytest.mark.slow, pytest.mark.e2e]

CONFIG = """
name: digits
project: speech
entrypoint: experiment:translation/local
hyperparameters: {rate: {type: log, base: 10, minval: -4, maxval: -1}}
searcher: {name: random, metric: accuracy, max_length: {batches: 100}, max_trials: 3}
"""


@pytest.fixture
def server(tmp_path):
    """A master with a paused experiment of project speech, and its viewer anna."""
    home = home_lib.find_home(str(tmp_path / "home"))
    with daemon.MasterServer(
        home, slots=[slots.Slot(0)], launcher=idle_launcher.IdleLauncher()
    ) as started:
        home.user_tokens.load("anna")
        yield started


@pytest.fixture
def client(server):
    master_client = pytest.importorskip("quintain.client.master_client")
    connection = pytest.importorskip("quintain.client.http.connection")
    with master_client.MasterClient(connection.Connection(server.file.address)) as client:
        client.grant_role("anna", team.Role.VIEWER, project="speech")
        client.create_experiment(CONFIG, activate=False)
        client.update_experiment(1, {"labels": ["<b>mine</b>"]})
        yield client


def test_a_viewer_sees_who_they_are_and_why_they_change_nothing(server, client, visit):
    page = visit.page
    visit.open(server.sign_in.build_link(user="anna"), "/experiments/1")
    reason = "This is for editors of project speech; you are viewer of project speech."
    page.get_by_text("anna · viewer of project speech").wait_for()
    activate = page.get_by_role("button", name="Activate")
    expect(activate).to_be_disabled()
    expect(activate).to_have_attribute("title", reason)
    page.get_by_role("button", name="Actions").click()
    page.get_by_text(reason).wait_for()
    for name in ("Description, labels, priority …", "Fork with other settings …", "Cancel …"):
        expect(page.get_by_role("button", name=name)).to_be_disabled()
    visit.take_picture("viewer")
    page.keyboard.press("Escape")
    page.get_by_role("button", name="Views").click()
    save = page.get_by_role("button", name="Save")
    expect(save).to_have_attribute("title", reason.replace("project speech;", "a project;"))
    page.get_by_label("Name of this view").fill("mine")
    expect(save).to_be_disabled()
    page.keyboard.press("Escape")
    page.get_by_role("button", name="Actions").click()
    page.get_by_role("link", name="Who changed what").click()
    page.get_by_role("heading", name="Audit log").wait_for()
    page.get_by_text("update experiment").wait_for()
    assert page.locator("tbody tr").count() == 2


def test_the_owner_reads_the_log_and_is_not_bothered(server, client, visit):
    page = visit.page
    visit.open(server.sign_in.build_link(), "/experiments/1")
    activate = page.get_by_role("button", name="Activate")
    activate.wait_for()
    page.get_by_role("button", name="More").click()
    page.get_by_text("You are owner, admin.").wait_for()
    assert page.locator(".user-name").count() == 0
    assert activate.is_enabled()
    page.get_by_role("link", name="Audit log").click()
    page.get_by_text("<b>mine</b>").wait_for()
    assert page.locator("tbody tr").count() == 3
    visit.take_picture("audit")
    page.get_by_label("User", exact=True).fill("nobody")
    page.get_by_label("User", exact=True).press("Enter")
    page.get_by_text("Nobody has changed anything like that yet.").wait_for()
    page.set_viewport_size({"width": 390, "height": 800})
    page.get_by_label("User", exact=True).fill("")
    page.get_by_label("User", exact=True).press("Enter")
    page.get_by_text("grant role").wait_for()
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    visit.take_picture("audit-phone")
