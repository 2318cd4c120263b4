"""A search that runs, looked at and steered from the page, with its master killed in between."""

import json
import os
import pathlib
import signal
import subprocess
import sys

import pytest

from quintain.client.home import home as home_lib

pytestmark = [pytest.mark.slow, pytest.mark.e2e]

MODEL_DIR = pathlib.Path(__file__).parents[1] / "e2e" / "toy_trial"
CONFIG = """
name: toy
entrypoint: model_def:ToyTrial
data: {secs_per_batch: 0.03}
hyperparameters:
  rate: {type: double, minval: 0.1, maxval: 1.0}
scheduling_unit: 5
searcher:
  name: async_halving
  metric: error
  max_length: {batches: 400}
  num_rungs: 3
  divisor: 2
  max_trials: 40
  replicate: none
reproducibility: {experiment_seed: 7}
"""
VIEWS = ("curves", "parallel", "scatter", "importance", "compare", "search", "timeline", "logs")


def run(*arguments):
    done = subprocess.run(
        [sys.executable, "-m", "quintain.cli.main", *map(str, arguments)],
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("QUINTAIN_HOME", str(tmp_path / "a home [1] ü"))
    started = []
    yield home_lib.find_home(os.environ["QUINTAIN_HOME"]), started
    for master in started:
        master.send_signal(signal.SIGKILL)
        master.wait()
    if home_lib.find_master(home_lib.find_home(os.environ["QUINTAIN_HOME"])) is not None:
        run("master", "stop", "--now")


def describe(number=1):
    return json.loads(run("experiment", "describe", number, "--json"))[0]


def read_state():
    return describe()["state"]


def choose(page, action):
    """Chooses a destructive action, and says yes to the one question."""
    page.get_by_role("button", name="Actions").click()
    page.get_by_role("menuitem", name=action).or_(
        page.get_by_role("button", name=f"{action} …")
    ).first.click()
    page.get_by_role("dialog").get_by_role("button", name=f"{action} the experiment").click()


def test_a_search_is_watched_and_steered(home, visit, tmp_path):
    home, masters = home
    config = tmp_path / "toy.yaml"
    config.write_text(CONFIG)
    run("experiment", "create", config, MODEL_DIR, "--detach")
    page = visit.page
    visit.expected = ["net::ERR", "404"]
    visit.open(json.loads(run("ui", "--no-browser", "--json"))["url"], "/experiments")
    visit.wait("toy")
    visit.take_picture("experiments")
    visit.go("/experiments/1")
    visit.wait("best error")

    # It moves by itself.
    best = page.get_by_text("best error").locator("xpath=..").first
    before = best.inner_text()
    page.get_by_text("live", exact=True).wait_for()
    for _ in range(6000):
        if best.inner_text() != before:
            break
        page.wait_for_timeout(100)
    assert best.inner_text() != before
    visit.take_picture("overview")
    visit.go("/experiments/1?tab=trials")
    page.get_by_role("row").nth(1).wait_for()
    visit.take_picture("trials")

    page.get_by_role("button", name="Pause").click()
    page.get_by_role("button", name="Activate").wait_for()
    assert read_state() == "PAUSED"
    page.get_by_role("button", name="Activate").click()
    page.get_by_role("button", name="Pause").wait_for()
    assert read_state() == "ACTIVE"
    page.get_by_role("button", name="Actions").click()
    page.get_by_role("button", name="Description, labels, priority").click()
    page.get_by_label("Priority, 1 to 99").fill("7")
    page.get_by_role("button", name="Save").click()
    visit.wait("Saved.")
    assert describe()["config"]["resources"]["priority"] == 7

    for view in VIEWS:
        visit.go(f"/experiments/1?tab={view}")
        page.locator("section.tab-body").wait_for()
        page.wait_for_timeout(800)
        visit.take_picture(view)
    visit.wait("trained to")

    os.kill(home_lib.find_master(home).pid, signal.SIGKILL)
    visit.wait("The master does not answer")
    visit.take_picture("master-gone")
    masters.append(
        subprocess.Popen(
            [sys.executable, "-m", "quintain.cli.main", "master", "start", "--slots", "2"],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
    )
    page.get_by_text("live", exact=True).wait_for()
    visit.go("/experiments/1")
    page.get_by_role("button", name="Pause").wait_for()

    visit.go("/trials/1")
    visit.wait("rate")
    for view in ("checkpoints", "logs", "system", "config"):
        visit.take_picture(f"trial-{view}")
        tab = page.get_by_role("navigation").get_by_text(view, exact=False).first
        if tab.count():
            tab.click()
            page.wait_for_timeout(300)
    for place, name in (("/slots", "slots"), ("/runs", "runs")):
        visit.go(place)
        page.wait_for_timeout(500)
        visit.take_picture(name)

    visit.go("/experiments/1")
    choose(page, "Kill")
    page.get_by_text("canceled").first.wait_for()
    # Trials may say so before the last process is gone.
    while (state := read_state()) == "STOPPING_CANCELED":
        page.wait_for_timeout(200)
    assert state == "CANCELED"

    # The first trial saved itself when the search was paused.
    visit.go("/trials/1")
    page.get_by_role("button", name="Continue …").click()
    page.get_by_label("Further batches").fill("5")
    page.get_by_role("button", name="Continue", exact=True).click()
    page.wait_for_url("**#/experiments/2*")
    page.locator(".page-head .badge").get_by_text("completed").wait_for()
    assert describe(2)["config"]["searcher"]["source_trial_id"] == 1
    visit.take_picture("continued")
