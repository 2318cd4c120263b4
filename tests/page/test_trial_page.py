"""A trial, logs, slots and actions on the page, in a real browser over a real master."""

import dataclasses
import json
import tarfile

import pytest

from quintain.client.home import home as home_lib
from quintain.master.placing import slots
from quintain.records import checkpoint_manifest
from quintain.records.config import provenance
from quintain.records.rows import checkpoint, codec, experiment, log, metric, states, trial
from quintain.records.rows import launch as launch_lib
from quintain.server import daemon
from quintain.store import store as store_lib
from quintain.testing import idle_launcher

pytestmark = [pytest.mark.slow, pytest.mark.e2e]

UUID = "0b1c2d3e-0000-0000-0000-000000000001"
CONFIG = """
name: digits
entrypoint: model_def:Digits
hyperparameters: {rate: {type: log, base: 10, minval: -4, maxval: -1}}
searcher: {name: random, metric: accuracy, max_length: {batches: 100}, max_trials: 3}
"""
HOSTILE = "<img src=x onerror=alert(1)> \x1b[31mred\x1b[0m \u202eabc"
SHOWN = "<img src=x onerror=alert(1)> red \\u202eabc"
ORIGIN = provenance.Provenance(
    1.7e9, ("quintain", "experiment", "create", HOSTILE), "/here", "3.12.1", "Linux", "host",
    "processor", 2, 8_000_000_000, {"keras": "3.15.1"},
    provenance.GitState("c0ffee", "main", is_dirty=True, diff=f"+{HOSTILE}\n"),
)  # fmt: skip


@pytest.fixture
def server(tmp_path):
    """A master with an experiment of two trials: one that failed, one with a checkpoint."""
    home = home_lib.find_home(str(tmp_path / "home"))
    home.create()
    code = home.experiments / "1" / "model_dir"
    code.mkdir(parents=True)
    (code / "model_def.py").write_text(f"# {HOSTILE}\n")
    (code.parent / provenance.FILE_NAME).write_text(json.dumps(codec.to_plain(ORIGIN)))
    (home.checkpoints / UUID).mkdir(parents=True)
    (home.checkpoints / UUID / "weights").write_bytes(bytes(5000))
    store = store_lib.open_store(home.database)
    with store.transaction() as session:
        write(session, str(code))
    store.close()
    with daemon.MasterServer(
        home,
        slots=slots.find_slots(2, 1),
        launcher=idle_launcher.IdleLauncher(),
        settings=daemon.ServerSettings(accept_new_database=True),
    ) as started:
        yield started


def write(session, code):
    config = {
        "name": "digits",
        "hyperparameters": {"rate": {"type": "log", "base": 10, "minval": -4, "maxval": -1}},
        "searcher": {"name": "random", "metric": "accuracy", "smaller_is_better": False},
    }
    session.add_experiment(
        experiment.Experiment(
            0, states.ExperimentState.COMPLETED, config, CONFIG, code, start_time=1e9, end_time=2e9
        )
    )
    failed, completed = states.TrialState.ERROR, states.TrialState.COMPLETED
    for number, state, reason in ((1, failed, f"exit code 1: {HOSTILE}"), (2, completed, "")):
        session.add_trial(
            trial.TrialRecord(
                0, 1, f"r{number}", state, {"rate": 0.01}, 3, total_batches=100,
                latest_checkpoint=UUID if state is completed else None, reason=reason,
                start_time=1.7e9, end_time=1.7e9 + 90,
            )
        )  # fmt: skip
    texts = [HOSTILE, "x" * 1_000_000, *(f"line {number}" for number in range(1000)), "the end"]
    session.add_logs([log.LogRow(1, 1.7e9, log.LogSource.STDOUT, text) for text in texts])
    session.add_metrics(
        [
            metric.MetricRow(2, group, batches, values, time=1.7e9 + batches)
            for batches in (50, 100)
            for group, values in (
                (metric.MetricGroup.TRAINING, {"loss": 1 / batches}),
                (metric.MetricGroup.VALIDATION, {"val_loss": 2 / batches}),
                (metric.MetricGroup.SYSTEM, {"cpu_percent": 90.0, "memory_bytes": 3e8}),
            )
        ]
    )
    session.add_checkpoint(checkpoint.Checkpoint(UUID, 2, 1, 100, files={"weights": 5000}))
    for number, start in ((1, 1.7e9), (2, 1.7e9 + 100)):
        launch = f"t{number}"
        session.save_launch(
            launch_lib.Launch(launch, number, 1, (0,), launch_lib.LaunchState.RUNNING, None, start)
        )
        session.delete_launch(launch)


def test_a_stopped_trial_says_its_rung(serve, open_page):
    server = serve(num_trials=20)
    stopped = server.home.to_search()["brackets"][0]["rungs"][0]["trials"][0][0]

    page = open_page(server, f"#/trials/{stopped}")
    page.get_by_text("stopped, rung 0").wait_for()
    page.goto(page.url.partition("#")[0] + f"#/experiments/1?tab=compare&sel={stopped}")
    page.get_by_role("row", name="state").get_by_text("stopped, rung 0").wait_for()


def test_a_running_trial_says_what_it_does_how_far_it_is_and_what_it_took(serve, open_page):
    server = serve(num_trials=20)
    server.home.trials[1] |= {"state": "ACTIVE", "end_time": None, "held_secs": 90.0}

    page = open_page(server, "#/trials/2")
    page.get_by_text("training 40/200").wait_for()
    page.get_by_role("progressbar", name="progress of the trial").get_by_text("20 %").wait_for()
    page.get_by_text("1 min 30 s").wait_for()
    page.goto(page.url.partition("#")[0] + "#/experiments/1?tab=trials")
    row = page.get_by_role("row").filter(has_text="training 40/200")
    row.get_by_text("1 min 30 s").wait_for()


def test_logs_of_a_failed_trial_are_read_from_their_end(server, visit):
    page = visit.page
    visit.open(server.sign_in.build_link(), "/trials/1")
    page.get_by_role("alert").get_by_text(f"exit code 1: {SHOWN}").wait_for()
    assert page.get_by_role("log").locator(".log-line").last.inner_text() == "the end"
    page.get_by_role("navigation", name="parts").get_by_text("Logs").click()
    box, lines = page.locator(".logs-frame .logs-box"), page.locator(".logs-frame .log-line")
    lines.last.wait_for()
    assert lines.count() == 400

    # What comes is followed, until one scrolls.
    store = server.master._shared.store
    row = log.LogRow(1, 1.7e9, log.LogSource.STDERR, "news")
    with store.transaction() as session:
        session.add_logs([row])
    box.get_by_text("news").wait_for()
    left = "box => box.scrollHeight - box.scrollTop - box.clientHeight"
    assert box.evaluate(left) < 40
    box.evaluate("box => { box.scrollTop = 2000; }")
    page.get_by_role("button", name="To the end").wait_for()
    with store.transaction() as session:
        session.add_logs([row])
    page.get_by_role("button", name="To the end, 1 new").wait_for()
    assert box.evaluate("box => box.scrollTop") == pytest.approx(2000, abs=2)

    while not page.get_by_text("The first line.").count():
        box.evaluate("box => { box.scrollTop = 0; }")
        page.wait_for_timeout(20)
    assert lines.count() == 1005
    texts = page.locator(".logs-frame .log-text")
    assert texts.first.text_content() == SHOWN
    assert len(texts.nth(1).text_content()) < 3000
    box.evaluate("box => { box.scrollTop = 0; }")
    page.get_by_role("button", name="show all").click()
    page.get_by_role("button", name="show less").wait_for()
    assert len(texts.nth(1).text_content()) > 1_000_000

    page.get_by_label("Find in lines").fill("line 99")
    page.locator("mark").first.wait_for()
    assert lines.count() == 11
    page.get_by_label("Find in lines").fill("not there")
    visit.wait("No matching lines")


def test_a_trial_shows_all_that_it_left(server, visit, tmp_path):
    page = visit.page
    visit.open(server.sign_in.build_link(), "/trials/2")
    page.get_by_label("Curves").get_by_text("validation").wait_for()
    visit.wait("1e-4 to 0.1, logarithmic")
    page.get_by_label("Across").select_option("time since the start")
    place = page.locator(".plot .u-over").first.bounding_box()
    with page.expect_response(lambda answer: "/points?" in answer.url) as points:
        page.mouse.move(place["x"] + 40, place["y"] + 60)
        page.mouse.down()
        page.mouse.move(place["x"] + 140, place["y"] + 60, steps=4)
        page.mouse.up()
    assert points.value.json()["batches"] == [50, 100]
    visit.go("/trials/2?tab=system")
    visit.wait("last 300 MB")

    visit.go("/trials/2?tab=checkpoints")
    page.get_by_role("cell", name="5 kB").wait_for()
    with page.expect_download() as found:
        page.get_by_role("link", name="Download").click()
    found.value.save_as(tmp_path / "found.tar")
    with tarfile.open(tmp_path / "found.tar") as archive:
        assert archive.getnames() == [f"checkpoint-{UUID}/weights"]

    visit.go("/trials/2?tab=config&part=written")
    visit.wait("entrypoint: model_def:Digits")
    visit.go("/trials/2?tab=config&part=code")
    visit.wait(f"# {SHOWN}")
    visit.go("/trials/2?tab=config&part=origin")
    visit.wait("c0ffee")
    visit.wait(f"+{SHOWN}")
    visit.wait("1 packages")


def test_a_trial_is_noted_and_its_model_exported(server, visit):
    page = visit.page
    directory = server.master._shared.home / "checkpoints" / UUID
    manifest = checkpoint_manifest.Manifest(1, "KerasTrialController", 100, 1, 2, 1, {})
    (directory / "metadata.json").write_text(json.dumps(dataclasses.asdict(manifest)))
    (directory / "model.keras").write_text("model")
    visit.open(server.sign_in.build_link(), "/trials/2?tab=checkpoints")

    page.get_by_role("button", name="Note …").click()
    page.get_by_role("textbox").fill(HOSTILE)
    page.get_by_role("button", name="Save").click()
    page.get_by_label("Note", exact=True).get_by_text(SHOWN, exact=True).wait_for()
    page.get_by_role("button", name="Export", exact=True).click()
    page.get_by_role("link", name="Download the model").wait_for()

    with page.expect_download() as started:
        page.get_by_role("link", name="Download the model").click()
    with tarfile.open(started.value.path()) as archive:
        assert archive.getnames() == [f"export-{UUID}/model.keras"]


def test_slots_are_shown_over_time_and_lead_to_trials(server, visit):
    page = visit.page
    visit.open(server.sign_in.build_link(), "/slots")
    visit.wait("Slots")
    row = page.get_by_role("row", name="0 cpu")
    row.wait_for()
    assert "idle" in row.inner_text()
    canvas = page.get_by_role("img", name="Slots and their trials over time")
    place = canvas.bounding_box()
    x, y = place["x"] + place["width"] / 2, place["y"] + 36
    page.mouse.move(x, y)
    page.get_by_role("status").get_by_text("of experiment 1").wait_for()

    page.mouse.down()
    page.mouse.move(x + 200, y, steps=3)
    page.mouse.up()
    page.get_by_role("button", name="Zoom out").click()
    page.get_by_role("button", name="everything", pressed=True).wait_for()

    page.mouse.click(x, y)
    page.wait_for_url("**#/trials/*")


def test_an_experiment_is_described_checked_archived_and_deleted(server, visit, tmp_path):
    page = visit.page
    visit.expected = ["400"]
    code = tmp_path / "home" / "experiments" / "1" / "model_dir"
    commands = server.master.commands
    made = commands.create_experiment(CONFIG, code, activate=False)
    commands.apply(made.id, "cancel")
    visit.open(server.sign_in.build_link(), f"/experiments/{made.id}")
    visit.wait("canceled")

    def choose(action):
        page.get_by_role("button", name="Actions").click()
        page.get_by_role("button", name=action).click()

    choose("Description, labels")
    page.get_by_label("Description, or a note").fill("<i>mine</i>")
    page.get_by_label("Labels").fill("b, a")
    page.get_by_role("button", name="Save").click()
    page.get_by_text("<i>mine</i>", exact=True).wait_for()

    choose("Fork with other settings")
    page.get_by_text("The config is fine: 3 trials.").wait_for()
    page.get_by_role("button", name="Text", exact=True).click()
    page.get_by_label("Config, YAML").fill(CONFIG.replace("max_trials", "max_trial"))
    page.get_by_role("alert").get_by_text("Did you mean 'max_trials'?").wait_for()
    assert page.get_by_role("button", name="Create").is_disabled()
    page.get_by_role("button", name="Cancel", exact=True).click()

    choose("Archive")
    visit.wait("It is archived")
    choose("Delete")
    page.get_by_role("button", name="Delete the experiment").click()
    page.wait_for_url("**#/experiments")
    with server.master._shared.store.reading() as session:
        assert [each.id for each in session.list_experiments(include_archived=True)] == [1]


def test_a_fork_is_filled_in_field_by_field_with_what_is_wrong_beside_it(server, visit):
    page = visit.page
    visit.expected = ["400"]
    visit.open(server.sign_in.build_link(), "/experiments/1")
    page.get_by_role("button", name="Actions").click()
    page.get_by_role("button", name="Fork with other settings").click()
    page.get_by_text("The config is fine: 3 trials.").wait_for()
    visit.take_picture("fork")

    page.get_by_label("hyperparameters.rate.minval").fill("5")
    field = page.locator(".field", has=page.get_by_label("hyperparameters.rate.maxval"))
    field.get_by_role("alert").get_by_text("expected more than minval=5").wait_for()
    assert page.get_by_role("button", name="Create").is_disabled()
    visit.take_picture("fork-problem")
    page.set_viewport_size({"width": 390, "height": 800})
    visit.take_picture("fork-narrow")
    page.set_viewport_size({"width": 1280, "height": 860})
    page.get_by_label("hyperparameters.rate.minval").fill("-3")
    page.get_by_label("searcher.max_trials").fill("7")
    page.get_by_text("The config is fine: 7 trials.").wait_for()

    page.get_by_role("button", name="Text", exact=True).click()
    text = page.get_by_label("Config, YAML")
    changed = text.input_value()
    assert "minval: -3" in changed
    assert "max_trials: 7" in changed
    text.fill(changed.replace("max_trials: 7", "max_trials: 6"))
    page.get_by_text("The config is fine: 6 trials.").wait_for()
    page.get_by_role("button", name="Text", exact=True).click()
    assert page.get_by_label("searcher.max_trials").input_value() == "6"
    page.get_by_role("button", name="Create").click()
    page.wait_for_url("**#/experiments/2*")
    with server.master._shared.store.reading() as session:
        made = session.get_experiment(2).config
    assert made["searcher"]["max_trials"] == 6
    assert made["hyperparameters"]["rate"]["minval"] == -3
