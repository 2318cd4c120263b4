"""Runs of `quintain train` on the page: listed, looked at while they grow, compared."""

import json
import os
import re
import socket
import subprocess
import sys

import pytest

from quintain.client.home import home as home_lib
from quintain.server import daemon
from quintain.testing import idle_launcher

pytestmark = [pytest.mark.slow, pytest.mark.e2e]

HOSTILE = "<img src=x onerror=alert(1)>"
SETTINGS = """\
experiment: translation/local
task: {{model: {{width: {width}}}, note: "{hostile}"}}
trainer: {{train_steps: 100}}
"""


def to_line(step, loss):
    metrics = {"training_loss": loss, "learning_rate": 0.1, "step_ms": 3.0}
    return json.dumps({"step": step, "time_secs": 1e9 + step, "metrics": metrics}) + "\n"


def write_run(path, *, width, last_step):
    path.mkdir(parents=True)
    (path / "params.yaml").write_text(SETTINGS.format(width=width, hostile=HOSTILE))
    losses = [None if step == 30 else width / step for step in range(1, last_step + 1)]
    lines = [to_line(step, loss) for step, loss in enumerate(losses, start=1)]
    (path / "training.jsonl").write_text("".join(lines))
    evaluation = {"step": 10, "metrics": {"validation_loss": width / 5}}
    (path / "evaluations.jsonl").write_text(f"{json.dumps(evaluation)}\n")
    return path


@pytest.fixture
def runs(tmp_path):
    """A run that trains (in this process, says its lock), and one that has ended."""
    live = write_run(tmp_path / "runs" / HOSTILE.replace("/", ""), width=8, last_step=40)
    (live / "run.lock").write_text(json.dumps({"pid": os.getpid(), "host": socket.gethostname()}))
    (live / "ckpt-40.index").write_text("x")
    (live / "translations").mkdir()
    rows = f"source\treference\thypothesis\none\t{HOSTILE}\teins\n"
    (live / "translations" / "step-10.tsv").write_text(rows)
    write_run(tmp_path / "runs" / "wide", width=16, last_step=100)
    return live


@pytest.fixture
def stopped_runs(runs):
    """A process that trains the first run until it is stopped, as its lock says."""
    code = (
        "import fcntl, json, os, signal, socket, sys\n"
        "lock = open(sys.argv[1], 'w')\n"
        "fcntl.flock(lock, fcntl.LOCK_EX)\n"
        "json.dump({'pid': os.getpid(), 'host': socket.gethostname()}, lock)\n"
        "lock.flush()\n"
        "signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))\n"
        "print(flush=True)\n"
        "sys.stdin.read()\n"
    )
    command = [sys.executable, "-c", code, runs / "run.lock"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        process.stdout.readline()
        yield process
        process.kill()


@pytest.fixture
def link(runs, tmp_path):
    """A link to the page of a master that lists them."""
    home = home_lib.find_home(str(tmp_path / "home"))
    folder = str(tmp_path / "runs")
    with daemon.MasterServer(
        home,
        slots=(),
        launcher=idle_launcher.IdleLauncher(),
        settings=daemon.ServerSettings(run_dirs=[folder]),
    ) as server:
        yield server.sign_in.build_link()


def test_a_run_is_watched_while_it_trains(link, runs, visit):
    visit.open(link, "/runs")
    page = visit.page
    page.get_by_role("link", name=HOSTILE).click()
    chart = page.get_by_label("loss", exact=True)
    chart.locator(".chart-legend").get_by_text("training_loss").wait_for()
    visit.wait("1 curve has values that are not finite")
    page.get_by_role("progressbar", name="steps").get_by_text("40 %").wait_for()

    with (runs / "training.jsonl").open("a") as file:
        file.write(to_line(80, 0.5))
    page.get_by_role("progressbar", name="steps").get_by_text("80 %").wait_for()
    visit.take_picture("run-curves")
    (runs / "run.lock").unlink()
    page.locator(".page-head .badge").get_by_text("stopped").wait_for()

    page.get_by_role("link", name="Translations").click()
    page.get_by_role("cell", name=HOSTILE).wait_for()
    visit.take_picture("run-translations")
    page.get_by_role("link", name="Checkpoints").click()
    page.get_by_role("rowheader", name="ckpt-40").wait_for()
    page.get_by_role("link", name="Evaluations").click()
    page.get_by_role("cell", name="1.6").wait_for()
    page.get_by_role("link", name="Config").click()
    page.get_by_role("rowheader", name="task.model.width").wait_for()
    page.get_by_role("link", name="Environment").click()
    visit.wait("No start information")


def test_runs_are_compared_by_their_curves_and_what_differs(link, visit):
    visit.open(link, "/runs")
    page = visit.page
    page.get_by_label("hide ended runs").check()
    page.get_by_role("link", name="wide").wait_for(state="detached")
    page.get_by_label("hide ended runs").uncheck()
    page.get_by_role("checkbox", name=f"Choose {HOSTILE}").check()
    page.get_by_role("checkbox", name="Choose wide").check()
    visit.take_picture("runs")
    page.get_by_role("button", name="Compare 2 runs").click()

    row = page.get_by_role("row", name=re.compile("task.model.width"))
    row.get_by_text("16").wait_for()
    assert page.get_by_role("rowheader", name="task.note").count() == 0
    chart = page.get_by_label("loss", exact=True)
    chart.locator(".chart-legend").get_by_text("wide: validation_loss").wait_for()
    visit.take_picture("runs-compared")

    address = page.url
    page.goto("about:blank")
    page.goto(address)
    page.get_by_role("row", name=re.compile("task.model.width")).wait_for()
    page.go_back()


def test_seeds_of_a_run_are_one_row_and_one_curve(link, runs, visit):
    for seed in (1, 2):
        path = write_run(runs.parent / f"seed {seed}", width=32, last_step=20 + seed)
        with (path / "params.yaml").open("a") as file:
            file.write(f"runtime: {{seed: {seed}}}\n")
    evaluation = {"step": 10, "metrics": {"validation_loss": 7.0}}
    (path / "evaluations.jsonl").write_text(f"{json.dumps(evaluation)}\n")
    visit.open(link, "/runs")
    page = visit.page
    row = page.get_by_role("row", name=re.compile("n = 2"))
    row.get_by_text("6.7 ± 0.42").wait_for()
    row.get_by_role("button").click()
    page.get_by_role("link", name="seed 1").wait_for()
    visit.take_picture("runs-seeds")

    row.get_by_role("checkbox").check()
    page.get_by_role("button", name="Compare 2 runs").click()
    name = re.compile("2 seeds: seed [12], seed [12]")
    page.get_by_role("columnheader", name=name).first.wait_for()
    page.get_by_role("group", name=re.compile("loss by steps: 2 curves")).wait_for()
    page.get_by_label("Group seeds").uncheck()
    page.get_by_role("columnheader", name="seed 1", exact=True).first.wait_for()
    page.get_by_role("group", name=re.compile("loss by steps: 4 curves")).wait_for()


def test_a_view_is_saved_opened_and_deleted(link, visit):
    page = visit.page
    visit.open(link, "/runs?sort=label&metric=training_loss")
    page.get_by_role("button", name="Views").click()
    visit.wait("No views of such pages yet")
    page.get_by_label("Name of this view").fill("Losses <b>")
    page.get_by_role("button", name="Save", exact=True).click()
    visit.wait("Saved the view")

    visit.go("/runs")
    page.get_by_role("columnheader", name="validation_loss").wait_for()
    page.get_by_role("button", name="Views").click()
    visit.take_picture("saved-views")
    page.get_by_role("link", name="Losses <b>").click()
    page.get_by_role("columnheader", name="training_loss").wait_for()
    assert "sort=label" in page.url

    visit.go("/experiments")
    page.get_by_role("button", name="Views").click()
    visit.wait("No views of such pages yet")
    visit.go("/runs")
    page.get_by_role("button", name="Delete Losses <b> …").click()
    page.get_by_role("button", name="Delete the view Losses <b>").click()
    visit.wait("No views of such pages yet")


def test_a_run_is_stopped_from_its_row_and_the_page_says_how_it_goes_on(link, stopped_runs, visit):
    visit.open(link, "/runs")
    page = visit.page
    page.get_by_role("button", name=f"Stop {HOSTILE}").click()
    page.get_by_role("button", name="Cancel").click()
    assert stopped_runs.poll() is None
    page.get_by_role("link", name=HOSTILE).click()
    page.get_by_role("button", name=f"Stop {HOSTILE}").click()
    page.get_by_text("as on Ctrl-C").wait_for()
    visit.take_picture("run-stop")
    page.get_by_role("button", name="Stop the run").click()

    page.get_by_role("dialog").get_by_text("quintain train --model-dir=").wait_for()
    visit.take_picture("run-stopped")
    assert stopped_runs.wait(60) == 0
    page.get_by_role("dialog").get_by_role("button", name="Close").last.click()
    page.locator(".page-head .badge").get_by_text("stopped").wait_for()
    # Nothing of the other run's task makes translations.
    visit.go("/runs")
    page.get_by_role("link", name="wide").click()
    page.get_by_role("link", name="Checkpoints").wait_for()
    assert page.get_by_role("link", name="Translations").count() == 0


def test_runs_are_cards_on_a_phone(link, stopped_runs, visit):
    page = visit.page
    page.set_viewport_size({"width": 390, "height": 844})
    visit.open(link, "/runs")
    row = page.get_by_role("row", name=f"Choose {HOSTILE}")
    row.locator("[data-label=validation_loss]").wait_for()
    row.get_by_role("progressbar").wait_for()
    assert row.get_by_role("cell").count() == 7
    visit.take_picture("runs-phone")
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    assert page.locator(".plain-box").evaluate("(box) => box.scrollWidth <= box.clientWidth")

    page.get_by_role("button", name="Step").click()
    page.get_by_role("columnheader", name="Step ↑").wait_for()
    heights = [one.bounding_box()["height"] for one in page.locator("main button, nav a").all()]
    assert min(heights) >= 40
    row.get_by_role("button", name=f"Stop {HOSTILE}").click()
    page.get_by_role("button", name="Cancel").click()
    row.get_by_role("link").first.click()
    page.get_by_role("link", name="Config").click()
    page.locator("td code").first.wait_for()
    assert page.locator(".plain-box").evaluate("(box) => box.scrollWidth <= box.clientWidth")


@pytest.mark.long("test_large_search.py shows it")
def test_a_run_that_there_is_not_says_so(link, visit):
    visit.expected = ["404"]
    visit.open(link, "/runs/nothing")

    visit.wait("Run not found")
