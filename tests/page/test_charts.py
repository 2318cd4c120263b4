"""Curves, parallel coordinates and their like, in a browser."""

import array
import json
import re
import struct
import urllib.parse

import pytest

sync_api = pytest.importorskip("playwright.sync_api")
expect = sync_api.expect

pytestmark = [pytest.mark.slow, pytest.mark.e2e]

SIDE_PX = 100


def place_of_axis(page, index, count):
    """Returns where an axis of parallel coordinates stands, and its height's ends."""
    box = page.locator(".parallel-front").bounding_box()
    step = (box["width"] - 2 * SIDE_PX) / (count - 1)
    return box["x"] + SIDE_PX + index * step, box["y"] + 58, box["y"] + box["height"] - 40


def drag(page, start, end):
    page.mouse.move(*start)
    page.mouse.down()
    page.mouse.move(*end, steps=4)
    page.mouse.up()


def read_count(page, count):
    """Returns how many trials are shown once that number stands still."""
    text = None
    while (now := count.text_content()) != text:
        text = now
        page.wait_for_timeout(400)
    return int(text.split()[0])


def test_brushes_filter_all_views_and_are_in_the_link(serve, open_page):
    page = open_page(serve(num_trials=200), "#/experiments/1?tab=parallel")
    count = page.locator(".filter-count")
    expect(page.get_by_role("button", name="optimizer", exact=True)).to_be_visible()

    across, top, bottom = place_of_axis(page, 3, 5)
    drag(page, (across, top + 2), (across, top + (bottom - top) / 4))
    expect(page).to_have_url(re.compile("brush=.*optimizer.*sgd"))
    by_name = read_count(page, count)
    across, top, bottom = place_of_axis(page, 4, 5)
    drag(page, (across, top - 5), (across, (top + bottom) / 2))
    expect(page).to_have_url(re.compile("brush=.*accuracy"))
    both = read_count(page, count)
    assert 0 < both < by_name < 200

    page.reload()
    expect(count).to_have_text(f"{both} of 200 trials")
    page.get_by_role("link", name="Curves").click()
    expect(count).to_have_text(f"{both} of 200 trials")
    expect(page.get_by_role("group", name=f"{both} curves")).to_be_visible()

    page.go_back()
    expect(page.get_by_role("button", name="optimizer", exact=True)).to_be_visible()
    page.mouse.click(across, bottom - 20)
    expect(count).to_have_text(f"{by_name} of 200 trials")


@pytest.mark.long("Details of charts; brushes, zoom and tables are tried in every run")
def test_axes_are_moved_and_brushed_by_the_keyboard(serve, open_page):
    page = open_page(serve(num_trials=50), "#/experiments/1?tab=parallel")
    name = page.get_by_role("button", name="learning_rate", exact=True)

    name.press("ArrowRight")
    expect(page).to_have_url(re.compile("axes=hparams.model.dropout(,|%2C)hparams.learning_rate"))
    name.press("Enter")
    page.get_by_label("to", exact=True).fill("0.001")
    page.get_by_label("to", exact=True).press("Tab")

    expect(page.locator(".filter-count")).not_to_have_text("50 trials")
    expect(page).to_have_url(re.compile(r"brush=.*learning_rate.*(,|%2C)0\.001"))


def test_the_value_of_a_metric_is_chosen_for_all_views(serve, open_page):
    page = open_page(serve(num_trials=30), "#/experiments/1?tab=trials")
    value = page.get_by_role("combobox", name="Value of validation/accuracy").first
    expect(page.get_by_role("columnheader", name="accuracy (max)")).to_be_visible()

    value.select_option("min")
    expect(page).to_have_url(re.compile("agg=validation%2Faccuracy%3Amin"))
    expect(page.get_by_role("columnheader", name="accuracy (min)")).to_be_visible()
    expect(page.locator(".grid-body .grid-row").first).to_contain_text("0.05")
    page.get_by_role("link", name="Parallel").click()
    expect(page.get_by_role("button", name="accuracy (min)", exact=True)).to_be_visible()
    page.get_by_role("link", name="Scatter").click()
    expect(page.get_by_role("group", name="accuracy (min) by dropout")).to_be_visible()
    value.select_option("max")
    expect(page).not_to_have_url(re.compile("agg="))


def test_a_legend_names_settings_and_hides_curves(serve, open_page):
    page = open_page(
        serve(num_trials=3), "#/experiments/1?tab=curves&show=all&metrics=training/loss"
    )
    legend = page.get_by_role("table", name="Curves")
    names = legend.get_by_title("Hide or show it")
    expect(names).to_have_count(3)
    head = legend.get_by_role("button", name="learning_rate")
    rates = legend.locator("tbody td:nth-child(3)")
    head.click()
    upward = rates.all_text_contents()
    head.click()
    expect(head).to_contain_text("↓")
    assert rates.all_text_contents() == upward[::-1] == sorted(upward, key=float)[::-1]

    names.first.click()
    expect(names.first).to_have_attribute("aria-pressed", "false")
    expect(page.get_by_role("group", name=re.compile("2 curves"))).to_be_visible()
    names.first.click()
    expect(page.get_by_role("group", name=re.compile("3 curves"))).to_be_visible()


def test_seeds_are_one_curve_with_a_band_and_one_column(serve, open_page):
    page = open_page(serve(num_trials=12, num_seeds=3), "#/experiments/1?tab=curves&show=all")
    expect(page.get_by_role("group", name=re.compile("4 curves"))).to_be_visible()
    legend = page.get_by_role("table", name="Curves")
    expect(legend).to_contain_text("3 seeds: trials 1, 2, 3")
    expect(legend).to_contain_text("±")

    page.get_by_label("Group seeds").uncheck()
    expect(page.get_by_role("group", name=re.compile("12 curves"))).to_be_visible()
    expect(page).to_have_url(re.compile("seeds=0"))

    page.evaluate("location.hash = '#/experiments/1?tab=compare&sel=1-6'")
    expect(page.get_by_role("columnheader", name="3 seeds: 1, 2, 3")).to_be_visible()
    expect(page.get_by_role("row", name="validation/accuracy")).to_contain_text("±")


def pack_curves(url):
    """Returns an answer of `/curves`: 100 points of each trial, as many as are left of more."""
    query = urllib.parse.parse_qs(urllib.parse.urlsplit(url).query)
    rows = [[int(trial), query["metric"][0], 100] for trial in query["trial_id"]]
    header = json.dumps({"cursor": "fakefake-0", "curves": rows}).encode()
    header += b" " * (-(4 + len(header)) % 8)
    batches = array.array("d", [10.0 * (at + 1) for at in range(100)])
    points = batches.tobytes() + array.array("d", [0.5] * 100).tobytes() + batches.tobytes()
    return struct.pack("<I", len(header)) + header + points * len(rows)


def test_a_zoom_is_in_the_link_and_fetches_all_points_of_few_curves(serve, open_page):
    page = open_page(serve(num_trials=20), "#/experiments/1?tab=trials")
    points = {"batches": [300, 301, 302], "values": [0.5, "NaN", 0.5], "times": [1, 2, 3]}
    page.route(
        re.compile("/trials/.*/points"),
        lambda route: route.fulfill(content_type="application/json", body=json.dumps(points)),
    )
    page.route(
        re.compile("/experiments/1/curves"),
        lambda route: route.fulfill(body=pack_curves(route.request.url)),
    )
    page.evaluate("location.hash = '#/experiments/1?tab=curves&show=top&k=1'")
    inside = page.locator(".u-over")
    expect(inside).to_be_visible()
    box = inside.bounding_box()
    middle = (box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)

    with page.expect_response(re.compile("/points")) as asked:
        drag(page, (box["x"] + box["width"] / 4, box["y"] + 20), middle)

    query = urllib.parse.parse_qs(urllib.parse.urlsplit(asked.value.url).query)
    assert query["metric"] == ["validation/accuracy"]
    assert 200 < int(query["from"][0]) < 300
    assert 450 < int(query["to"][0]) < 560
    expect(page.get_by_text("1 curve has values that are not finite")).to_be_visible()
    expect(page).to_have_url(re.compile("range="))
    page.reload()
    expect(page.get_by_role("button", name="Reset zoom")).to_be_visible()
    inside.dblclick()
    expect(page.get_by_role("button", name="Reset zoom")).to_have_count(0)
    expect(page).not_to_have_url(re.compile("range="))


def test_curves_are_smoothed_and_the_point_says_the_smoothed_value(serve, open_page):
    page = open_page(serve(num_trials=1), "#/experiments/1?tab=curves&metrics=training/loss")
    chart = page.get_by_role("group", name="training/loss by batches: 1 curves")
    chart.press("ArrowRight")
    chart.press("ArrowRight")
    told = chart.get_by_role("status").locator("dd").first
    expect(told).to_have_text(re.compile(r"^[0-9.]+$"))
    page.get_by_label("Smoothing").fill("0.9")

    expect(told).to_contain_text("smoothed")
    expect(page).to_have_url(re.compile("smooth=0.9"))
    raw, smoothed = map(float, re.findall(r"[0-9.]+", told.text_content()))
    assert smoothed > raw  # The loss falls.


def test_compared_trials_show_the_settings_that_differ_and_all_on_demand(serve, open_page):
    page = open_page(serve(num_trials=20), "#/experiments/1?tab=compare&sel=1-3")
    expect(page.get_by_role("columnheader", name="Trial 3")).to_be_visible()
    expect(page.get_by_role("rowheader", name="learning_rate")).to_be_visible()
    expect(page.get_by_role("rowheader", name="global_batch_size")).to_have_count(0)
    expect(page.get_by_role("group", name=re.compile("3 curves"))).to_be_visible()

    page.get_by_label("Only differences").uncheck()
    expect(page.get_by_role("row", name="global_batch_size")).to_contain_text("32")
    page.get_by_role("button", name="Take Trial 3 out").click()
    expect(page).to_have_url(re.compile("sel=1(,|%2C|-)2(&|$)"))


def test_two_columns_and_a_colour_make_a_scatter_plot_whose_points_are_chosen(serve, open_page):
    page = open_page(serve(num_trials=3), "#/experiments/1?tab=scatter")
    page.get_by_role("combobox", name="Across").select_option("layers")
    page.get_by_role("combobox", name="Up").select_option("dropout")
    page.get_by_label("Colour").select_option("optimizer")
    expect(page.get_by_role("group", name="dropout by layers, 3 trials")).to_be_visible()
    expect(page.get_by_role("img", name="Colours of optimizer")).to_be_visible()

    for axis in ("Across", "Up"):
        page.get_by_role("combobox", name=axis).select_option("id")
    page.locator(".u-over").click()  # Trial 2 of three lies in the middle.
    expect(page).to_have_url(re.compile("sel=2(&|$)"))


def test_who_descends_from_whom_is_a_tree_of_links(serve, open_page):
    page = open_page(serve(num_trials=4), "#/experiments/1?tab=trials")
    found = {"kind": "pbt", "brackets": [], "lineage": [[3, 1], [4, 3]]}
    page.route(re.compile("/experiments/1/search"), lambda route: route.fulfill(json=found))

    page.evaluate("location.hash = '#/experiments/1?tab=search'")
    tree = page.get_by_role("region", name="Lineage")
    expect(tree.locator("path")).to_have_count(2)
    places = [tree.get_by_role("link", name=f"Trial {one}").bounding_box() for one in (1, 3, 4)]
    assert sorted(places, key=lambda box: box["x"]) == places
    tree.get_by_role("link", name="Trial 4").click()
    expect(page.get_by_role("heading", name="Trial 4")).to_be_visible()


@pytest.mark.long("Details of charts; brushes, zoom and tables are tried in every run")
def test_a_curve_names_its_trial_and_is_selected_by_a_click(serve, open_page):
    page = open_page(serve(num_trials=5), "#/experiments/1?tab=curves")
    chart = page.get_by_role("group", name=re.compile("5 curves"))

    for _ in range(3):
        chart.press("ArrowRight")
    told = chart.get_by_role("status")
    expect(told).to_contain_text("learning_rate")
    trial = re.search(r"Trial (\d+)", told.text_content()).group(1)
    chart.press("Enter")
    expect(page).to_have_url(re.compile(f"sel={trial}(&|$)"))

    page.locator(".tabs").get_by_role("link", name="Compare").click()
    expect(page.get_by_role("columnheader", name=f"Trial {trial}")).to_be_visible()


@pytest.mark.long("Further cases of a test of which some run every time", but=["parallel"])
@pytest.mark.parametrize("tab", ["curves", "parallel", "scatter"])
def test_every_chart_has_its_table(serve, open_page, tab):
    page = open_page(serve(num_trials=30), f"#/experiments/1?tab={tab}")

    page.get_by_text("Table", exact=True).first.click()

    expect(page.locator(".chart-table tbody tr")).to_have_count(30)


@pytest.mark.long("Details of charts; brushes, zoom and tables are tried in every run")
def test_experiments_stand_side_by_side(serve, open_page):
    server = serve(num_trials=30)
    page = open_page(server, "#/experiments/1?tab=trials")
    page.route(
        re.compile("/experiments/2"),
        lambda route: route.continue_(
            url=route.request.url.replace("/experiments/2", "/experiments/1")
        ),
    )

    page.evaluate("location.hash = '#/compare?ids=1-2'")

    expect(page.get_by_role("columnheader")).to_have_count(3)
    expect(page.get_by_role("group", name=re.compile("best so far"))).to_be_visible()
    page.get_by_role("button", name="Take experiment 1 out").click()
    expect(page).to_have_url(re.compile("ids=2$"))


@pytest.mark.long("Details of charts; brushes, zoom and tables are tried in every run")
def test_importance_says_why_it_is_not_told(serve, open_page):
    page = open_page(serve(num_trials=3), "#/experiments/1?tab=trials")
    told = {"evaluator": "", "num_trials": 3, "importances": [], "problem": "Three are too few."}
    page.route(
        re.compile("/experiments/1/importance"),
        lambda route: route.fulfill(content_type="application/json", body=json.dumps(told)),
    )

    page.evaluate("location.hash = '#/experiments/1?tab=importance'")

    expect(page.get_by_text("Three are too few.")).to_be_visible()


@pytest.mark.long("Details of charts; brushes, zoom and tables are tried in every run")
def test_curves_come_back_after_everything_was_fetched_anew(serve, open_page):
    server = serve(num_trials=5)
    page = open_page(server, "#/experiments/1?tab=curves", may_lose_master=True)
    rows = page.locator(".chart-table tbody tr")
    page.get_by_text("Table", exact=True).click()
    expect(rows).to_have_count(5)

    server.stop()
    expect(page.locator(".connection")).to_contain_text("The master does not answer")
    expect(rows).to_have_count(5)
    serve(num_trials=7, port=server.server_port)

    expect(rows).to_have_count(7)
