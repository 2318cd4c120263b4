"""Registered models on the page: registered from a trial, listed, promoted by a rule."""

import re

import pytest

from quintain.client.home import home as home_lib
from quintain.records.rows import checkpoint, metric, registered_model, states
from quintain.server import daemon
from quintain.store import store as store_lib
from quintain.testing import idle_launcher, store_case

expect = pytest.importorskip("playwright.sync_api").expect

pytestmark = [pytest.mark.slow, pytest.mark.e2e]

HOSTILE = "<img src=x onerror=alert(1)>"
SEARCHER = {"name": "random", "metric": "accuracy", "smaller_is_better": False}
VALUES = {8: (0.80, 0.82, 0.81), 16: (0.90, 0.93, 0.91)}


@pytest.fixture
def server(tmp_path):
    """A master with two experiments over the same three seeds, each trial with a checkpoint."""
    home = home_lib.find_home(str(tmp_path / "home ü"))
    home.create()
    store = store_lib.open_store(home.database)
    with store.transaction() as session:
        for units, values in VALUES.items():
            owner = session.add_experiment(
                store_case.new_experiment(
                    config={"name": f"digits {units}", "searcher": SEARCHER},
                    model_dir="",
                    state=states.ExperimentState.COMPLETED,
                )
            ).id
            for seed, value in enumerate(values, start=1):
                hparams = {"units": units}
                record = store_case.new_trial(
                    owner, seed=seed, hparams=hparams, best_metric=value,
                    state=states.TrialState.COMPLETED,
                )  # fmt: skip
                trial_id = session.add_trial(record).id
                uuid = f"{trial_id:08}-0000-0000-0000-000000000001"
                (home.checkpoints / uuid).mkdir(parents=True)
                (home.checkpoints / uuid / "model.keras").write_text(uuid)
                session.add_checkpoint(
                    checkpoint.Checkpoint(
                        uuid, trial_id, owner, 100, files={"model.keras": 36}, metric=value
                    )
                )
                group = metric.MetricGroup.VALIDATION
                metrics = {"accuracy": value, "f1": value}
                session.add_metrics([metric.MetricRow(trial_id, group, 100, metrics, 8, 1.7e9)])
    store.close()
    with daemon.MasterServer(
        home,
        slots=(),
        launcher=idle_launcher.IdleLauncher(),
        settings=daemon.ServerSettings(accept_new_database=True),
    ) as started:
        yield started


def test_a_model_is_registered_from_its_trial_and_promoted_by_a_rule(server, visit):
    page = visit.page
    link = server.sign_in.build_link()
    visit.open(link, "/models")
    visit.wait("No models yet")
    expect(page.locator(".connection")).to_have_text("live")
    visit.take_picture("models-empty")
    receipt = registered_model.Receipt(
        f"/exports/{HOSTILE}", "host", "", {"saved_model.pb": "0" * 64}, {}, {"loss": 0.25}, {}
    )
    commands = server.master.commands
    commands.register_path("translator", receipt=receipt, alias="champion", note=HOSTILE)
    visit.wait("translator@champion")

    for trial_id, alias in ((1, "champion"), (4, "")):
        visit.go(f"/trials/{trial_id}?tab=checkpoints")
        page.get_by_role("heading", name=f"Trial {trial_id}").wait_for()
        page.get_by_role("button", name="Register").click()
        form = page.get_by_role("dialog", name="Register a model")
        form.get_by_label("Name of the model").fill("digits")
        form.get_by_label("Alias").fill(alias)
        if alias:
            visit.take_picture("models-register")
        form.get_by_role("button", name="Register").click()
        visit.wait(f"Registered digits@{1 if alias else 2}.")
    delete = page.get_by_role("button", name="Delete")
    expect(delete).to_be_disabled()
    expect(delete).to_have_attribute("title", re.compile("^Registered as digits@2;"))

    visit.go("/models")
    model = page.get_by_role("region", name="Model digits")
    model.get_by_text("quintain serve-model --model digits@champion").wait_for()
    assert model.get_by_role("link", name="trial 4").get_attribute("href").startswith("#/trials/4")
    page.get_by_role("region", name="Model translator").get_by_text(HOSTILE).first.wait_for()
    model.get_by_role("button", name="Promote version 2 of digits").click()
    form = page.get_by_role("dialog")
    form.get_by_label("Only if it is not worse").select_option("champion")
    form.get_by_label("Metric").fill("f1")
    visit.expected.append("status of 4")
    form.get_by_role("button", name="Promote").click()
    form.get_by_text("searcher.directions").wait_for()
    visit.take_picture("models-promote")
    form.get_by_label("Metric").fill("")
    form.get_by_role("button", name="Promote").click()
    visit.wait("digits@champion is version 2.")
    model.get_by_role("row", name="2 champion").wait_for()
    model.get_by_text("History of its aliases").click()
    model.get_by_text("accuracy over 3 paired seeds").wait_for()
    visit.take_picture("models")
    page.set_viewport_size({"width": 390, "height": 800})
    visit.take_picture("models-phone")


def test_a_name_that_can_not_be_is_told_in_the_form(server, visit):
    visit.open(server.sign_in.build_link(), "/trials/1?tab=checkpoints")
    visit.page.get_by_role("button", name="Register").click()
    form = visit.page.get_by_role("dialog")
    form.get_by_label("Name of the model").fill("a b")
    visit.expected.append("status of 4")
    form.get_by_role("button", name="Register").click()
    form.get_by_text("expected letters, digits").wait_for()
