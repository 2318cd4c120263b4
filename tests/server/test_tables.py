import csv
import dataclasses
import gzip
import json
import struct

import pytest
import urllib3

from quintain.records.rows import curve, log, metric, states, trial
from quintain.records.views import trial_table

GROUPS = metric.MetricGroup
EXPERIMENT = "/api/v1/experiments/1"

MISTAKES = (
    ("experiments/9/table", 404, "There is no experiment 9; the newest is 1."),
    ("experiments/9/curves", 404, "There is no experiment 9"),
    ("experiments/9/importance", 404, "There is no experiment 9"),
    ("experiments/9/search", 404, "There is no experiment 9"),
    ("experiments/9/logs", 404, "There is no experiment 9"),
    ("experiments/9/trials?where=id>0", 404, "There is no experiment 9"),
    ("trials/9/points?metric=validation/loss", 404, "There is no trial 9"),
    ("experiments/1/curves?metric=accuracy", 400, "metric: got 'accuracy', expected a group"),
    ("experiments/1/trials?where=acuracy>0", 400, "where: at position 1: got 'acuracy'"),
    ("experiments/1/table.csv?sort=acuracy", 400, "sort: got 'acuracy'"),
    ("experiments/1/trials?fields=hparam", 400, "Did you mean 'hparams'?"),
    ("experiments/1/trials?where=" + "(" * 3000, 400, "where: at position 51: is nested"),
    ("experiments/1/trials?limit=-1", 400, "limit: got '-1'"),
    ("experiments/1/importance?evaluator=best", 400, "evaluator: got 'best'"),
    ("experiments/1/logs?level=loud", 400, "level: got 'loud'"),
)


@pytest.fixture
def store(store):
    """Adds a trial, metrics of several points, and lines of several levels."""
    with store.transaction() as session:
        session.add_trial(
            trial.TrialRecord(
                0, 1, "r3", states.TrialState.ERROR, {"lr": 0.3, "net": {"units": 8}}, 4,
                best_metric=0.9, start_time=10.0, end_time=12.0,
            )
        )  # fmt: skip
        session.add_metrics(
            [
                metric.MetricRow(3, GROUPS.VALIDATION, batches, {"accuracy": value}, 1, 5.0)
                for batches, value in ((100, 0.25), (200, 0.75), (300, "Infinity"))
            ]
        )
        session.add_metrics([metric.MetricRow(3, GROUPS.SYSTEM, 300, {"cpu": 0.5}, 0, 6.0)])
        session.add_logs(
            [
                log.LogRow(3, 7.0, log.LogSource.STDERR, text)
                for text in ("UserWarning: old", "step 1", "ValueError: no", "error_rate: 0.5")
            ]
        )
    return store


def test_the_table_has_a_column_for_everything(http):
    table = http("GET", f"{EXPERIMENT}/table").json

    assert table["num_trials"] == 3
    assert set(table["columns"]) == set(trial_table.COLUMNS)
    assert table["columns"]["id"] == [1, 2, 3]
    assert table["columns"]["best_metric"] == [0.5, "NaN", 0.9]
    assert table["columns"]["state"] == ["ACTIVE", "ACTIVE", "ERROR"]
    assert table["hparams"] == {"lr": [0.1, 0.1, 0.3], "net.units": [None, None, 8]}
    assert table["metrics"] == {
        "validation/accuracy": {
            "best_is": "min",
            "last": [0.5, None, "Infinity"],
            "min": [0.5, None, 0.25],
            "max": [0.5, None, "Infinity"],
        }
    }
    newest = table["cursor"].rpartition("-")[2]
    assert int(newest) > 0


def test_a_table_is_read_again_once_something_of_it_has_changed(calls, store):
    first = calls.write_table(1)
    with store.transaction() as session:
        session.add_experiment(dataclasses.replace(session.get_experiment(1), id=0))
    second = calls.write_table(1)
    with store.transaction() as session:
        session.update_trial(dataclasses.replace(session.get_trial(1), restarts=3))
    third = json.loads(calls.write_table(1))

    assert second is first
    assert third["columns"]["restarts"] == [3, 0, 0]
    assert third["cursor"] != json.loads(first)["cursor"]
    assert json.loads(calls.write_table(2))["num_trials"] == 0


def test_commands_see_the_same_table_and_trials_with_and_without_a_master(over_http, calls):
    direct, remote = calls.get_table(1), over_http.get_table(1)
    selection = trial_table.Selection("lr >= 0.1", "-lr,id", limit=2, offset=1)

    assert [remote.columns["id"][row] for row in remote.select("accuracy == inf")] == []
    assert remote.select("accuracy.last == inf") == direct.select("accuracy.last == inf") == [2]
    assert remote.select("", "-best") == direct.select("", "-best") == [2, 0, 1]
    assert [one.id for one in over_http.select_trials(1, selection)] == [1, 2]
    assert [one.id for one in calls.select_trials(1, selection)] == [1, 2]


def test_curves_are_numbers_behind_a_header(url):
    content = download(f"{url}{EXPERIMENT}/curves?metric=validation/accuracy").data

    (length,) = struct.unpack_from("<I", content)
    header = json.loads(content[4 : 4 + length])
    assert (4 + length) % 8 == 0
    assert header["curves"] == [[1, "validation/accuracy", 1], [3, "validation/accuracy", 3]]
    numbers = content[4 + length :]
    assert curve.unpack(numbers[:24]) == ([100], [0.5], [1.0])
    assert curve.unpack(numbers[24:]) == ([100, 200, 300], [0.25, 0.75, float("inf")], [5.0] * 3)


def test_curves_of_some_trials_and_metrics(url):
    def list_names(query):
        content = download(f"{url}{EXPERIMENT}/curves?{query}").data
        (length,) = struct.unpack_from("<I", content)
        return sorted(one[1] for one in json.loads(content[4 : 4 + length])["curves"])

    assert list_names("") == ["system/cpu", "validation/accuracy", "validation/accuracy"]
    assert list_names("trial_id=3") == ["system/cpu", "validation/accuracy"]
    assert list_names("trial_id=1&trial_id=3&metric=system/cpu") == ["system/cpu"]
    assert list_names("trial_id=9") == list_names("metric=training/loss") == []


def download(url, **headers):
    with urllib3.PoolManager(retries=False, timeout=20) as pool:
        headers = {"Authorization": "Bearer the-token", **headers}
        return pool.request("GET", url, headers=headers, decode_content=False)


def test_all_points_are_there_between_two_numbers_of_batches(http):
    path = "/api/v1/trials/3/points?metric=validation/accuracy"

    assert http("GET", path).json["values"] == [0.25, 0.75, "Infinity"]
    assert http("GET", f"{path}&from=200&to=200").json == {
        "batches": [200],
        "values": [0.75],
        "times": [5.0],
    }


def test_trials_are_chosen_and_counted(url, http):
    answer = download(f"{url}{EXPERIMENT}/trials?where=lr<0.2&sort=-id&limit=1&fields=id,hparams")

    assert json.loads(answer.data) == [{"id": 2, "hparams": {"lr": 0.1}}]
    assert answer.headers["X-Total-Count"] == "2"
    assert [one["id"] for one in http("GET", f"{EXPERIMENT}/trials?state=ERROR").json] == [3]


def test_files_of_tables_have_chosen_rows(url):
    answer = download(f"{url}{EXPERIMENT}/table.csv?where=state%3Derror")

    assert answer.headers["Content-Type"].startswith("text/csv")
    assert [row["hparams.lr"] for row in csv.DictReader(answer.data.decode().splitlines())] == [
        "0.3"
    ]


def test_large_answers_are_compressed_for_who_can_read_that(url):
    path = f"{url}/api/v1/openapi.json"
    plain = download(path)
    small = download(path, **{"Accept-Encoding": "br, gzip"})

    assert "Content-Encoding" not in plain.headers
    assert small.headers["Content-Encoding"] == "gzip"
    assert len(small.data) < len(plain.data) / 4
    assert gzip.decompress(small.data) == plain.data
    assert plain.headers["Vary"] == small.headers["Vary"] == "Accept-Encoding"


def test_logs_are_read_in_pages_of_a_level(http):
    pages = {
        "level=error": ["ValueError: no"],
        "level=warning": ["UserWarning: old", "ValueError: no"],
        "level=warning&last=1": ["ValueError: no"],
        "level=warning&limit=1": ["UserWarning: old"],
        "last=2": ["ValueError: no", "error_rate: 0.5"],
        "before=8&limit=2": ["UserWarning: old", "step 1"],
        "before=8&level=error": [],
        "contains=step": ["step 1"],
    }

    def read(path):
        return {
            query: [row["text"] for row in http("GET", f"{path}/logs?{query}").json]
            for query in pages
        }

    assert read("/api/v1/trials/3") == pages
    assert read(EXPERIMENT) == pages


def test_logs_of_an_experiment_are_those_of_its_trials(http):
    rows = http("GET", f"{EXPERIMENT}/logs").json

    assert [row["trial_id"] for row in rows] == [1] * 5 + [3] * 4


def test_summaries_are_small_and_count_trials(http):
    (one,) = http("GET", "/api/v1/experiments?summary=true").json

    assert one["num_trials"] == {"ACTIVE": 2, "ERROR": 1}
    assert one["best_metric"] == 0.5  # By default smaller is better.
    assert one["config"] == {
        "name": "digits",
        "searcher": {"name": "single", "metric": "accuracy"},
    }
    assert "original_config" not in one


def test_importance_names_the_metrics_that_there_are(http, over_http):
    found = http("GET", f"{EXPERIMENT}/importance").json
    assert found["problem"] == "2 trials have a finite value; at least 5 are needed."
    assert over_http.get_importances(1).num_trials == 2

    answer = http("GET", f"{EXPERIMENT}/importance?metric=acuracy")
    assert answer.status == 400
    assert "Did you mean 'accuracy'" in answer.json["error"]["message"]


def test_an_experiment_is_checked_without_being_created(http):
    text = (
        "name: new\nentrypoint: model_def:T\nhyperparameters:\n"
        "  lr: {type: double, minval: 0, maxval: 1}\n"
        "searcher: {name: random, metric: loss, max_length: {batches: 10}, max_trials: 4}\n"
    )
    body = {"config_text": text, "overrides": ["searcher.max_trials=7"]}

    answer = http("POST", "/api/v1/experiments/check", body=body)

    assert answer.status == 200
    assert (answer.json["num_trials"], answer.json["total_batches"]) == (7, 70)
    assert len(http("GET", "/api/v1/experiments").json) == 1
    broken = http("POST", "/api/v1/experiments/check", body={"config_text": "nme: a"})
    assert (broken.status, broken.json["error"]["kind"]) == (400, "UnknownKeyError")
    parent = http("POST", "/api/v1/experiments/check", body={"parent_id": 9})
    assert parent.status == 404


def test_a_mistake_is_one_clear_message(http):
    answers = [http("GET", f"/api/v1/{path}") for path, _, _ in MISTAKES]

    assert [answer.status for answer in answers] == [status for _, status, _ in MISTAKES]
    messages = [answer.json["error"]["message"] for answer in answers]
    unclear = [
        (text, message)
        for text, (_, _, message) in zip(messages, MISTAKES, strict=True)
        if message not in text or "\n" in text
    ]
    assert unclear == []
