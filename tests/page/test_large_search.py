"""The page with a search of ten thousand trials, and with hostile words, in a real browser."""

import csv
import re
import urllib.parse

import pytest

import quintain.client
from quintain.client.home import home as home_lib
from quintain.master.placing import slots
from quintain.records.rows import experiment, metric, states, trial
from quintain.server import daemon
from quintain.store import store as store_lib
from quintain.testing import idle_launcher, made_search

expect = pytest.importorskip("playwright.sync_api").expect

pytestmark = [pytest.mark.slow, pytest.mark.e2e]

NUM_TRIALS = 10_000
NUM_FEW = 40
WHERE = "learning_rate < 1e-4 and units >= 256"
TABS = (
    *("curves", "parallel", "scatter", "importance", "compare"),
    *("search", "timeline", "logs", "config"),
)
HOSTILE = "<img src=x onerror=alert(1)><script>alert(2)</script>\x1b[31m\u202e'\"`${1}"


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    home = home_lib.find_home(str(tmp_path_factory.mktemp("home with [brackets] and ü")))
    home.create()
    store = store_lib.open_store(home.database)
    made_search.write_search(store, NUM_TRIALS)
    _write_hostile(store)
    made_search.write_search(store, NUM_FEW, name="small")
    store.close()
    with daemon.MasterServer(
        home,
        slots=slots.find_slots(2, 1),
        launcher=idle_launcher.IdleLauncher(),
        settings=daemon.ServerSettings(accept_new_database=True),
    ) as started:
        yield started


def _write_hostile(store):
    with store.transaction() as session:
        config = {
            "name": HOSTILE,
            "hyperparameters": {HOSTILE: {"type": "const", "val": HOSTILE}},
            "searcher": {"name": "single", "metric": HOSTILE, "smaller_is_better": True},
        }
        owner = session.add_experiment(
            experiment.Experiment(
                id=0,
                state=states.ExperimentState.ERROR,
                config=config,
                original_config=HOSTILE,
                model_dir="",
                description=HOSTILE * 100,
                labels=(HOSTILE,),
                start_time=-1e12,
                end_time=1e12,
                reason=HOSTILE,
            )
        )
        record = trial.TrialRecord(
            id=0,
            experiment_id=owner.id,
            request_id=HOSTILE,
            state=states.TrialState.ERROR,
            hparams={HOSTILE: HOSTILE},
            seed=1,
            reason=HOSTILE,
            start_time=1e12,
            end_time=-1e12,
        )
        added = session.add_trial(record)
        group = metric.MetricGroup.VALIDATION
        session.add_metrics(
            [
                metric.MetricRow(added.id, group, 10 * at, {HOSTILE: value, "m": HOSTILE}, 1, time)
                for at, (value, time) in enumerate(
                    [("NaN", 5.0), ("Infinity", -3.0), (1e308, 1e12), (-1e308, 0.0), (0.5, 1.0)]
                )
            ]
        )


def read_column(visit, name):
    """Returns what the shown rows of the table have in a column."""
    return visit.page.evaluate(
        """name => {
          const heads = [...document.querySelectorAll('[role=columnheader]')];
          const at = heads.findIndex((head) => head.textContent.trim().startsWith(name));
          const rows = [...document.querySelectorAll('.grid-body [role=row]')];
          return rows.sort((a, b) => a.ariaRowIndex - b.ariaRowIndex)
            .map((row) => row.children[at].textContent.trim());
        }""",
        name,
    )


def test_ten_thousand_trials_are_sorted_filtered_brushed_and_saved(server, visit, tmp_path):
    page = visit.page
    visit.open(server.sign_in.build_link(), "/experiments/1?tab=trials")
    visit.wait("10,000 trials")
    head = page.get_by_role("columnheader", name="accuracy (max)").get_by_role("button")
    head.click()
    head.click()
    page.wait_for_url(lambda address: "sort=" in address)
    with server.master._shared.store.reading() as session:
        trials = session.list_trials(1)
    values = sorted(record.best_metric for record in trials)
    shown = [float(text) for text in read_column(visit, "accuracy")]
    assert shown[0] == pytest.approx(values[-1], abs=1e-3) or shown[0] == pytest.approx(
        values[0], abs=1e-3
    )
    assert shown in (sorted(shown), sorted(shown, reverse=True))
    visit.take_picture("table-10000")

    page.get_by_label("Filter trials by an expression").fill(WHERE)
    expected = sum(
        record.hparams["learning_rate"] < 1e-4 and record.hparams["units"] >= 256
        for record in trials
    )
    visit.wait(f"{expected} of 10,000 trials")
    visit.expected.append("status of 400")  # Browsers tell it of any answer that is an error.
    page.get_by_label("Filter trials by an expression").fill("learning_rat < 1e-4")
    page.locator("#filter-problem").get_by_text("learning_rate").wait_for()
    page.get_by_label("Filter trials by an expression").fill("")
    visit.wait("10,000 trials")

    with page.expect_download() as download:
        page.get_by_role("button", name="CSV").or_(page.get_by_role("link", name="CSV")).click()
    saved = tmp_path / "trials.csv"
    download.value.save_as(saved)
    with saved.open(newline="") as file:
        assert len(list(csv.DictReader(file))) == NUM_TRIALS

    for tab in ("curves", "parallel", "scatter", "importance"):
        visit.go(f"/experiments/1?tab={tab}")
        page.locator("section.tab-body canvas, section.tab-body svg, .importance").first.wait_for()
        page.wait_for_timeout(500)
        visit.take_picture(f"{tab}-10000")


@pytest.mark.long("test_front.py shows it")
def test_a_link_shows_the_same_view(server, visit):
    visit.open(
        server.sign_in.build_link(),
        "/experiments/1?tab=trials&where=units%20%3C%2010&sort=-hparams.units",
    )
    visit.wait("of 10,000 trials")
    address = visit.page.url
    units = read_column(visit, "units")
    visit.page.reload()
    visit.wait("of 10,000 trials")
    assert visit.page.url == address
    assert units[0] == "9"
    assert read_column(visit, "units") == units


@pytest.mark.long("Further cases of a test of which some run every time")
def test_hostile_words_are_shown_as_text(server, visit):
    visit.open(server.sign_in.build_link(), "/experiments")
    visit.wait("onerror=alert(1)")
    for place in (
        "/experiments/2",
        *(f"/experiments/2?tab={tab}" for tab in TABS),
        f"/trials/{NUM_TRIALS + 1}",
    ):
        visit.go(place)
        visit.wait("onerror=alert(1)")
        visit.page.wait_for_timeout(200)
    assert visit.page.locator("img[src=x], #app script").count() == 0


@pytest.mark.long("Further cases of a test of which some run every time", but=["/experiments/77"])
@pytest.mark.parametrize("place", ["/experiments/77", "/trials/77777777", "/runs/none", "/nowhere"])
def test_what_is_not_there_is_said_in_words(server, visit, place):
    visit.expected = ["404"]
    visit.open(server.sign_in.build_link(), place)
    visit.page.get_by_text(re.compile("here is no|othing|not found")).first.wait_for()


def test_importance_is_found_in_three_ways_and_leads_to_a_scatter_plot(server, visit):
    pytest.importorskip("sklearn")
    page = visit.page
    visit.open(server.sign_in.build_link(), "/experiments/3?tab=importance")
    visit.wait(f"from {NUM_FEW} trials by fANOVA")
    for name in ("PED-ANOVA", "mean decrease of impurity"):
        before = page.locator(".importance-value").all_inner_texts()
        page.get_by_label("Found by").select_option(name)
        expect(page.locator(".importance-value")).not_to_have_text(before)
        shares = [float(text) for text in page.locator(".importance-value").all_inner_texts()]
        assert shares == sorted(shares, reverse=True)
        assert sum(shares) == pytest.approx(1, abs=0.01)

    page.locator(".importance-table").get_by_role("link").first.click()
    page.get_by_role("group", name=f"{NUM_FEW} trials").wait_for()


def test_no_view_asks_anybody_but_the_master(server, visit):
    page, asked = visit.page, []
    page.on("request", lambda request: asked.append(request.url))
    link = server.sign_in.build_link()
    visit.open(link, "/experiments")
    for place in (
        *(f"/experiments/3?tab={tab}" for tab in TABS),
        *(f"/trials/{NUM_TRIALS + 2}", "/slots", "/models", "/runs", "/audit"),
    ):
        visit.go(place)
        page.locator(".loading").wait_for(state="detached")
        page.wait_for_timeout(100)

    assert len(asked) > 30
    assert [url for url in asked if not url.startswith(f"{server.url}/")] == []


def test_a_notebook_has_the_trials_that_the_page_shows(server, visit):
    pytest.importorskip("pandas")
    home = str(server.master._shared.home)
    with quintain.client.connect(home) as platform:
        frame = platform.experiment(1).trials(WHERE)
        tables = [one._repr_html_() for one in (platform, platform.experiment(2), frame)]
    visit.open(
        server.sign_in.build_link(), f"/experiments/1?tab=trials&where={urllib.parse.quote(WHERE)}"
    )
    visit.wait(f"{len(frame)} of 10,000 trials")
    assert read_column(visit, "trial")[0] in map(str, frame.index)

    visit.open("about:blank")
    visit.page.set_content("".join(tables))
    assert visit.page.get_by_role("table").count() == len(tables)
    assert visit.page.locator("img, script").count() == 0


def test_it_can_be_read_on_a_phone(server, visit):
    visit.page.set_viewport_size({"width": 390, "height": 800})
    visit.open(server.sign_in.build_link(), "/experiments/1?tab=trials")
    visit.wait("10,000 trials")
    visit.take_picture("phone")
    assert visit.page.evaluate("document.documentElement.scrollWidth") <= 390


def test_without_a_link_it_says_how_to_get_one(server, browser):
    page = browser.new_context().new_page()
    answer = page.goto(server.url)
    assert "quintain ui" in page.content()
    assert answer.status in (200, 401, 403)
