"""The list of experiments and the table of trials, in a browser."""

import csv
import re

import pytest

sync_api = pytest.importorskip("playwright.sync_api")
expect = sync_api.expect

pytestmark = [pytest.mark.slow, pytest.mark.e2e]

ROWS = ".grid-body .grid-row"
SETTINGS = {"learning_rate", "dropout", "layers", "optimizer"}


def read_column(page, place):
    """Returns the texts of a column in the order in which rows are seen."""
    return page.evaluate(
        """(place) => {
            const at = (row) => Number(row.getAttribute('aria-rowindex'));
            return [...document.querySelectorAll('.grid-body .grid-row')]
                .sort((a, b) => at(a) - at(b)).map((row) => row.children[place].textContent);
        }""",
        place,
    )


def test_table_of_10000_trials_keeps_few_rows_in_the_document_and_sorts_nan_last(serve, open_page):
    page = open_page(serve(num_trials=10_000), "#/experiments/1?tab=trials")

    expect(page.get_by_role("columnheader", name="accuracy (max)")).to_have_attribute(
        "aria-sort", "descending"
    )
    best = [float(value) for value in read_column(page, 3)[:10]]
    page.locator(".grid").evaluate("(grid) => { grid.scrollTop = grid.scrollHeight; }")
    expect(page.locator(ROWS + "[aria-rowindex='10001']")).to_be_visible()

    assert best == sorted(best, reverse=True)
    assert read_column(page, 3)[-3:] == ["NaN"] * 3
    assert page.locator(ROWS).count() < 80
    assert page.locator(".grid").get_attribute("aria-rowcount") == "10001"


def test_live_trials_change_neither_scroll_nor_order_nor_selection(serve, open_page):
    page = open_page(
        serve(num_trials=300, is_live=True), "#/experiments/1?tab=trials&sort=-id&sel=7,280-282"
    )
    grid = page.locator(".grid")

    expect(page.locator(ROWS).first).to_be_visible()
    grid.evaluate("(grid) => { grid.scrollTop = 600; }")
    count = page.locator(".filter-count")
    before = count.text_content()
    expect(count).not_to_have_text(before)

    assert grid.evaluate("(grid) => grid.scrollTop") == 600
    ids = [int(value) for value in read_column(page, 1)]
    assert ids == sorted(ids, reverse=True)
    expect(page.locator(".selected-bar b")).to_have_text("4")
    expect(page.locator(ROWS + ".selected")).to_have_count(3)


def test_page_says_that_the_master_is_gone_and_goes_on_when_it_is_back(serve, open_page):
    first = serve(num_trials=50, is_live=True)
    page = open_page(first, "#/experiments/1?tab=trials", may_lose_master=True)
    expect(page.locator(".connection")).to_have_text("live")
    expect(page.locator(ROWS).first).to_be_visible()

    first.stop()
    expect(page.locator(".connection")).to_contain_text("The master does not answer")
    assert page.locator(ROWS).count() > 10
    serve(num_trials=200, is_live=True, port=first.server_port)

    expect(page.locator(".connection")).to_have_text("live")
    expect(page.locator(".filter-count")).to_have_text(re.compile("^2.. trials"))


def test_filter_chooses_rows_and_names_the_mistake_in_a_wrong_one(serve, open_page):
    page = open_page(serve(num_trials=500), "#/experiments/1?tab=trials", expected="status of 400")
    expect(page.locator(ROWS).first).to_be_visible()

    page.get_by_role("button", name="?").press("Enter")
    expect(page.get_by_text("A metric means its best value")).to_be_visible()
    page.keyboard.press("Escape")
    expect(page.get_by_text("A metric means its best value")).to_have_count(0)
    page.keyboard.press("/")
    page.keyboard.type("optimizer == lamb and acuracy > 0.5")
    expect(page.get_by_role("alert")).to_contain_text("Did you mean 'accuracy'?")
    page.get_by_label("Filter trials").fill("optimizer == lamb and accuracy > 0.5")
    expect(page.locator(".filter-problem")).to_have_count(0)

    expect(page.locator(".filter-count")).to_have_text(re.compile(r"^\d+ of 500 trials"))
    page.get_by_role("button", name="completed").click()
    assert set(read_column(page, 10)) == {"lamb"}
    assert set(read_column(page, 2)) == {"completed"}


def test_hyperparameters_have_short_names_everywhere_and_their_paths_on_hover(serve, open_page):
    page = open_page(serve(num_trials=100), "#/experiments/1?tab=trials&where=layers+%3E+4")

    expect(page.locator(".filter-count")).to_have_text(re.compile(r"^\d+ of 100 trials"))
    head = page.get_by_role("columnheader", name="layers").get_by_role("button")
    expect(head).to_have_attribute("title", "model.layers: sort")
    expect(page.locator(".grid-group")).to_have_text(["model"])

    page.get_by_role("link", name="Parallel").click()
    axis = page.get_by_role("button", name="dropout", exact=True)
    expect(axis).to_have_attribute("title", re.compile("^model.dropout:"))


def test_every_hyperparameter_metric_and_fact_of_a_trial_can_be_a_column(serve, open_page):
    page = open_page(serve(num_trials=10), "#/experiments/1?tab=trials")
    page.get_by_role("button", name="Columns").click()
    labels = {
        title: page.get_by_role("group", name=title).locator("label").all_text_contents()
        for title in ("Trial", "Hyperparameters", "Metrics")
    }
    assert set(labels["Hyperparameters"]) == {*SETTINGS, "global_batch_size"}
    assert {"accuracy min", "training/loss last"} <= set(labels["Metrics"])
    assert {"trial", "state", "seed", "restarts", "reason", "parent"} <= set(labels["Trial"])

    for title in labels:
        for box in page.get_by_role("group", name=title).get_by_role("checkbox").all():
            box.check()
    heads = page.get_by_role("columnheader")
    expect(heads).to_have_count(1 + sum(map(len, labels.values())))


def test_overview_has_the_best_trial_its_use_and_what_became_of_the_others(serve, open_page):
    page = open_page(serve(num_trials=200), "#/experiments/1")

    best = page.get_by_role("region", name="Best trial", exact=True)
    expect(best).to_contain_text("quintain checkpoint export 00000000-0000-4000-8000-000000000001")
    expect(best.get_by_text("dropout")).to_have_attribute("title", "model.dropout")
    expect(page.get_by_text("5 stopped, rung 0")).to_be_visible()
    expect(page.get_by_role("region", name="What mattered")).to_contain_text("0.800")
    expect(page.get_by_role("region", name="Curves of the best trials")).to_contain_text("Trial")
    expect(page.get_by_role("region", name="What failed")).to_contain_text("loss</b> is NaN")

    page.get_by_role("link", name="Trials 200").click()
    expect(page.get_by_role("columnheader", name="accuracy (max)")).to_have_attribute(
        "aria-sort", "descending"
    )
    page.get_by_label("Filter trials").fill("id < 20")
    expect(page.get_by_text("stopped, rung 0")).to_have_count(5)


def test_overview_says_what_further_seeds_decided(serve, open_page):
    server = serve(num_trials=20)
    server.home.trials[18]["request_id"], server.home.trials[19]["request_id"] = "r3+1", "r3+2"
    text = "0.01 better by 2 paired seeds (95 %: -0.01 to 0.03), a tie"
    server.home.standings = [
        {
            "trial_ids": [3, 20, 19], "num_seeds": 2, "mean": 0.81, "low": 0.7, "high": 0.92,
            "lead": {"trial_id": 7, "text": text},
        },
        {
            "trial_ids": [7, 18], "num_seeds": 2, "mean": 0.8, "low": None, "high": None,
            "lead": None,
        },
        {"trial_ids": [8], "num_seeds": 1, "mean": 0.9, "low": None, "high": None, "lead": None},
    ]  # fmt: skip

    page = open_page(server, "#/experiments/1")

    seeds = page.get_by_role("region", name="Further seeds")
    expect(seeds).to_contain_text(f"Trial 3 is {text} (than trial 7).")
    expect(seeds.get_by_role("row")).to_have_count(3)
    expect(seeds.get_by_role("row").nth(1)).to_contain_text("0.7 to 0.92")
    expect(page.get_by_role("heading", name="Best: trial 3")).to_be_visible()
    expect(page.locator(".facts")).to_contain_text("by trial 3")


def test_link_shows_the_same_view(serve, open_page):
    server = serve(num_trials=200)
    page = open_page(server, "#/experiments/1?tab=trials")
    page.get_by_role("columnheader", name="learning_rate").get_by_role("button").click()
    page.get_by_role("button", name="Columns").click()
    page.get_by_label("restarts").check()
    page.keyboard.press("Escape")
    page.get_by_role("button", name="completed").click()
    page.get_by_label("Select trial").nth(2).click()
    page.get_by_label("Select trial").nth(5).click(modifiers=["Shift"])
    expect(page.locator(ROWS + ".selected")).to_have_count(4)
    expect(page).to_have_url(re.compile("sel=.*(,|%2C|-)"))

    other = open_page(server, page.url.split("/", 3)[3])

    expect(other.locator(ROWS + ".selected")).to_have_count(4)
    heads = [one.get_by_role("columnheader").all_inner_texts() for one in (page, other)]
    assert heads[0] == heads[1]
    assert "restarts" in heads[0]
    assert read_column(other, 1)[:15] == read_column(page, 1)[:15]


@pytest.mark.long("Details of the table; test_large_search.py tries it on a real master")
def test_way_back_from_a_trial_leads_to_the_same_rows(serve, open_page):
    page = open_page(serve(num_trials=2000), "#/experiments/1?tab=trials&sort=-id")
    expect(page.locator(ROWS).first).to_be_visible()

    page.locator(".grid").evaluate("(grid) => { grid.scrollTop = 9000; }")
    expect(page.locator(ROWS + "[aria-rowindex='310']")).to_be_visible()
    page.evaluate("location.hash = '#/nothing'")
    expect(page.get_by_text("Page not found")).to_be_visible()
    page.go_back()

    expect(page.locator(ROWS + "[aria-rowindex='310']")).to_be_visible()


@pytest.mark.long("Details of the table; test_large_search.py tries it on a real master")
def test_a_key_counts_as_soon_as_there_are_rows(serve, open_page):
    slow = """
        const later = window.setTimeout;
        window.setTimeout = (call, ms, ...rest) => later(call, (ms || 0) + 5000, ...rest);
        window.requestAnimationFrame = () => 0;
    """
    page = open_page(serve(num_trials=100), "#/experiments/1?tab=trials", script=slow)
    expect(page.locator(ROWS).first).to_be_visible()

    page.keyboard.type("jjx")
    expect(page.locator(ROWS + ".selected")).to_have_count(1)


def test_keys_walk_select_and_open(serve, open_page):
    page = open_page(serve(num_trials=100), "#/experiments/1?tab=trials")
    expect(page.locator(ROWS).first).to_be_visible()

    page.keyboard.type("jjxjj")
    page.keyboard.press("Shift+X")
    expect(page.locator(ROWS + ".selected")).to_have_count(3)
    page.keyboard.press("Escape")
    expect(page.locator(ROWS + ".selected")).to_have_count(0)
    page.keyboard.press("?")
    expect(page.get_by_role("dialog", name="Keys")).to_be_visible()
    page.keyboard.press("Escape")
    page.keyboard.type("ge")

    expect(page.get_by_role("heading", name="Experiments")).to_be_visible()


@pytest.mark.long("Details of the table; test_large_search.py tries it on a real master")
def test_csv_has_all_rows_and_columns(serve, open_page, tmp_path):
    page = open_page(serve(num_trials=1200), "#/experiments/1?tab=trials")

    with page.expect_download() as download:
        page.get_by_role("button", name="CSV").click()
    download.value.save_as(tmp_path / "trials.csv")

    with (tmp_path / "trials.csv").open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 1200
    assert {"id", "hparams.model.layers", "training/loss.min", "reason"} <= set(rows[0])


def test_hostile_names_are_text_and_archived_experiments_are_shown_on_demand(serve, open_page):
    page = open_page(serve(num_trials=10), "#/experiments")

    expect(
        page.get_by_text('<img src=x onerror="alert(1)"> a name of hostile HTML')
    ).to_be_visible()
    expect(page.locator("main img")).to_have_count(0)
    expect(page.locator("tbody tr")).to_have_count(4)
    page.get_by_label("archived").check()

    expect(page.locator("tbody tr")).to_have_count(5)


@pytest.mark.long("Details of the table; test_large_search.py tries it on a real master")
def test_empty_home_says_what_to_do_next(serve, open_page):
    page = open_page(serve(is_empty=True), "#/experiments")

    expect(page.get_by_text("quintain experiment create")).to_be_visible()
    expect(page).to_have_title("Experiments · Quintain")


def test_rows_are_cards_on_a_phone(serve, open_page):
    phone = {"width": 390, "height": 844}
    page = open_page(serve(num_trials=100), "#/experiments/1?tab=trials")
    page.set_viewport_size(phone)
    grid = page.get_by_role("grid", name="Trials")
    row = grid.get_by_role("row").nth(1)
    expect(row.get_by_role("gridcell")).to_have_count(11)
    for column in ("trial", "state", "accuracy", "batches"):
        expect(row.locator(f"[data-label='{column}']")).to_be_visible()
    expect(page.get_by_role("button", name="Pause experiment 1")).to_be_visible()
    check_that_nothing_scrolls_sideways(page, ".grid")
    page.keyboard.press("End")
    expect(grid.locator("#row-99")).to_be_attached()
    grid.evaluate("(grid) => grid.scrollIntoView()")  # What stands above it has come by now.
    expect(grid.get_by_role("row").last).to_be_in_viewport(ratio=0.9)
    page.set_viewport_size({"width": 1000, "height": 844})
    expect(grid.get_by_role("row").last).to_be_in_viewport(ratio=0.6)
    page.set_viewport_size(phone)

    page.goto(page.url.split("#")[0] + "#/experiments")
    row = page.get_by_role("table").get_by_role("row").last
    expect(row.get_by_role("cell")).to_have_count(10)
    expect(row.get_by_role("link", name="digits")).to_be_visible()
    expect(row.get_by_role("progressbar")).to_be_visible()
    expect(row.locator("[data-label=Best]")).to_be_in_viewport(ratio=1)
    check_that_nothing_scrolls_sideways(page, ".plain-box")
    page.route("**/experiments/1/pause", lambda asked: asked.fulfill(json={}))
    row.get_by_role("button", name="Pause experiment 1").click()
    expect(page.get_by_text("It pauses")).to_be_visible()


def check_that_nothing_scrolls_sideways(page, box):
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    assert page.locator(box).evaluate("(box) => box.scrollWidth <= box.clientWidth")


def test_seeds_are_one_row_that_unfolds(serve, open_page):
    page = open_page(serve(num_trials=12, num_seeds=3), "#/experiments/1?tab=trials&sort=id")
    expect(page.locator(ROWS)).to_have_count(4)
    first = page.locator(ROWS).first
    expect(first).to_contain_text("±")

    page.get_by_role("button", name="n = 3").first.click()
    expect(page.locator(ROWS)).to_have_count(7)
    assert read_column(page, 1)[:5] == ["▾ n = 3", "1", "2", "3", "▸ n = 3"]
    first.get_by_role("checkbox").check()
    expect(page).to_have_url(re.compile("sel=1-3"))
    expect(page.locator(ROWS + ".selected")).to_have_count(4)

    page.get_by_label("Group seeds").uncheck()
    expect(page.locator(ROWS)).to_have_count(12)


WATCH_TABS = """
window.places = new Set();
const look = () => {
  const tabs = document.querySelector('.tabs');
  const boxes = [...(tabs?.children ?? [])].map((one) => one.getBoundingClientRect());
  if (tabs) window.places.add(boxes.map(({ left, top }) => `${left},${top}`).join(' '));
  requestAnimationFrame(look);
};
look();
"""


def test_tabs_stay_where_they_are_when_data_arrive(serve, open_page):
    page = open_page(serve(num_trials=30), "#/experiments/1?tab=curves", script=WATCH_TABS)

    expect(page.get_by_role("group", name=re.compile("30 curves"))).to_be_visible()

    assert page.evaluate("window.places.size") == 1
