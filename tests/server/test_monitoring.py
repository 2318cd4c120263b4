"""Metrics of a master, as a Prometheus server reads them."""

import contextlib
import json
import pathlib
import re

import pytest
import urllib3
from prometheus_client import parser

from quintain import errors
from quintain.client.home import token_files
from quintain.server.security import path_rules
from tests.server import conftest

ADDRESS = "/api/v1/metrics"
DASHBOARD = pathlib.Path(__file__).parents[2] / "examples/kubernetes/grafana.json"


@pytest.fixture
def http(url):
    """Returns a function that sends a request: (method, path, token)."""
    with urllib3.PoolManager(retries=False) as pool:

        def send(method, path, token=conftest.TOKEN):
            headers = {"Authorization": f"Bearer {token}"}
            return pool.request(method, url + path, headers=headers)

        yield send


@pytest.fixture
def read(http):
    """Returns a function that reads all metrics, by name and sorted values of labels."""

    def read():
        answer = http("GET", ADDRESS)
        assert answer.status == 200
        assert answer.headers["Content-Type"] == "text/plain; version=0.0.4; charset=utf-8"
        return {
            (sample.name, *sorted(sample.labels.values())): sample.value
            for family in parser.text_string_to_metric_families(answer.data.decode())
            for sample in family.samples
        }

    return read


def test_the_work_of_a_master_is_counted(read):
    found = read()
    assert found["quintain_experiments", "active"] == 1
    assert found["quintain_experiments", "error"] == 0
    assert found["quintain_trials", "active"] == 2
    assert found["quintain_trials", "completed"] == 0
    assert found["quintain_trial_restarts",] == 0
    assert found["quintain_checkpoints", "completed"] == 1
    assert found["quintain_checkpoint_bytes",] == 1_280_000
    assert found["quintain_slots", "busy", "master"] == 1
    assert found["quintain_slots", "free", "master"] == 0
    assert found["quintain_slots", "b", "lost"] == 2
    assert found["quintain_nodes", "active"] == found["quintain_nodes", "lost"] == 1
    assert found["quintain_trials_running",] == 1
    assert found["quintain_trials_waiting",] == 3
    assert found["quintain_master_problem",] == 0
    assert found["quintain_store_up",] == 1


def test_version_and_process_are_told(read):
    found = read()
    assert any(key[0] == "quintain_build_info" and "1.2.3" in key for key in found)
    assert found["process_resident_memory_bytes",] > 2**20
    assert found["process_cpu_seconds_total",] > 0


def test_transactions_of_the_store_are_timed(app, read, store):
    before = read()["quintain_store_transaction_duration_seconds_count",]
    with store.transaction() as session:
        session.add_event(1, {"kind": "created"})
    after = read()
    assert after["quintain_store_transaction_duration_seconds_count",] == before + 1
    assert after["quintain_store_transaction_duration_seconds_sum",] > 0


def test_requests_are_counted_by_the_address_of_their_route(http, read):
    for path in ("/api/v1/trials/1", "/api/v1/trials/2", "/api/v1/trials/99", "/static/app.js"):
        http("GET", path)
    http("GET", "/api/v1/trials/1", "wrong")
    http("BREW", "/api/v1/nothing/1")
    found = read()
    name, route = "quintain_http_requests_total", "/api/v1/trials/{trial_id}"
    assert found[name, route, "200", "GET"] == 2
    assert found[name, route, "404", "GET"] == 1
    assert found[name, "/static/{name}", "200", "GET"] == 1
    assert found[name, "", "", "401"] == 1
    assert found[name, "", "", "404"] == 1
    assert found["quintain_http_request_duration_seconds_count", route, "GET"] == 3


def test_labels_are_bounded(http, read):
    before = set(read())
    for number in range(20):
        http("GET", f"/api/v1/experiments/{number}")
        http("GET", f"/nothing/{number}")
    new = {key[1:] for key in set(read()) - before if "bucket" not in key[0]}
    assert {each for key in new for each in key} <= {
        *("", "GET", "200", "404", "/api/v1/experiments/{experiment_id}", ADDRESS),
    }


def test_the_dashboard_shows_all_metrics_by_labels_that_they_have(http):
    http("GET", ADDRESS)
    text = http("GET", ADDRESS).data.decode()
    families = list(parser.text_string_to_metric_families(text))
    labels = {one.name: {"job", *one.labels} for family in families for one in family.samples}
    panels = json.loads(DASHBOARD.read_text())["panels"]
    queries = [target["expr"] for panel in panels for target in panel["targets"]]

    for query in queries:
        known = set.union(*(labels[name] for name in re.findall(r"(\w+)\{", query)))
        grouped = ", ".join(re.findall(r"by \((.*?)\)", query)).split(", ")
        assert {*re.findall(r"(\w+)=", query), *filter(None, grouped)} <= known
    unshown = [one for one in families if not any(one.name in query for query in queries)]
    own = {one.name for one in unshown if one.name.startswith("quintain_")}
    assert {name for name in own if not name.endswith("_created")} == {"quintain_build_info"}


def test_a_store_that_can_not_be_read_is_told(read, store, monkeypatch):
    @contextlib.contextmanager
    def fail():
        raise errors.StoreAwayError("The server is away.")
        yield

    monkeypatch.setattr(store, "reading", fail)
    found = read()
    assert found["quintain_store_up",] == 0
    assert not any(key[0] == "quintain_trials" for key in found)
    assert found["quintain_slots", "busy", "master"] == 1


def test_the_token_of_metrics_opens_nothing_else(http, home):
    token = token_files.load(home.metrics_token)
    assert http("GET", ADDRESS, token).status == 200
    assert http("GET", ADDRESS, "wrong").status == 401
    refused = http("GET", "/api/v1/experiments", token)
    assert refused.status == 403
    assert "The token of metrics is for /api/v1/metrics only." in refused.json()["error"]["message"]
    assert http("POST", ADDRESS, token).status == 403
    token_files.renew(home.metrics_token)
    assert http("GET", ADDRESS, token).status == 401
    assert path_rules.Client.PAGE not in path_rules.find_rule("GET", "/metrics")[0].clients
