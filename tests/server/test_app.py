import concurrent.futures
import dataclasses
import errno
import gc
import json
import os
import socket
import time

import pytest

from quintain import errors
from quintain.records.rows import codec, trial, workload
from quintain.server.http import responses

UUID = "0b1c2d3e-0000-0000-0000-000000000001"
IDENTITY = trial.ProcessIdentity(12, 3.5, "1-1")
RUN = "/api/v1/trials/1/runs"


@pytest.mark.parametrize("header", [None, "Bearer wrong", "Basic the-token", "the-token"])
@pytest.mark.parametrize("path", ["/api/v1/experiments", "/api/v1/nothing", "/api/v1/openapi.json"])
def test_nothing_is_answered_without_the_token(http, header, path):
    answer = http("GET", path, authorization=header)

    assert answer.status == 401
    assert answer.json["error"]["kind"] == "UnauthorizedError"


@pytest.mark.parametrize(
    ("method", "path", "status", "kind", "text"),
    [
        ("GET", "/experiments/99", 404, "NotFoundError", "99"),
        ("GET", "/trials/99/logs", 404, "NotFoundError", "99"),
        ("GET", "/checkpoints/zzzzzzzz", 404, "NotFoundError", "zzzzzzzz"),
        ("GET", "/nothing", 404, "NotFoundError", "Not Found"),
        ("POST", "/experiments/1/archive", 409, "StateError", "is ACTIVE"),
        ("GET", "/experiments/one", 400, "ConfigError", "experiment_id: got 'one'"),
        ("GET", "/experiments?state=BUSY", 400, "ConfigError", "BUSY"),
        ("GET", "/trials/1/logs?limit=0", 400, "ConfigError", "limit: got '0'"),
    ],
)
def test_errors_are_typed(http, method, path, status, kind, text):
    answer = http(method, f"/api/v1{path}")

    assert answer.status == status
    error = answer.json["error"]
    assert error["kind"] == kind
    assert text in error["message"]


def test_a_bad_config_is_a_bad_request(http):
    answer = http("POST", "/api/v1/experiments", body={"config_text": "broken", "source": "a.yaml"})

    assert answer.status == 400
    assert answer.json["error"] == {
        "kind": "ConfigError",
        "message": "a.yaml:1: broken: unknown.",
    }


def test_a_setting_that_can_not_be_changed_names_the_nearest(http):
    answer = http("PATCH", "/api/v1/experiments/1", body={"max_slot": 3})

    assert answer.status == 400
    assert "Did you mean 'max_slots'?" in answer.json["error"]["message"]


def test_numbers_that_are_not_finite_are_texts(http):
    answer = http("GET", "/api/v1/trials/2")

    assert answer.json["best_metric"] == "NaN"
    assert "NaN" not in answer.text.replace('"NaN"', "")


def test_files_outside_of_the_directory_are_not_there(http, home):
    home.path.joinpath("secret").write_text("x")

    for name in ("../../secret", "..%2F..%2Fsecret", "/etc/passwd", "missing"):
        answer = http("GET", f"/api/v1/checkpoints/{UUID}/files/{name}")
        assert answer.status == 404, name


def test_a_process_is_told_what_it_has_to_know(http):
    answer = http("POST", RUN, body=codec.to_plain(IDENTITY))

    spec = codec.from_plain(trial.TrialOrder, answer.json)
    assert (spec.trial_id, spec.seed) == (1, 3)


def test_a_process_that_is_not_wanted_is_told_to_go(http):
    answer = http("POST", RUN, body={"pid": 1, "start_time": 2.0, "launch_id": "old"})

    assert answer.status == 410
    assert answer.json["error"]["kind"] == "GoneError"


@pytest.mark.parametrize("body", [b"", b"[]", b"{", b'{"pid": 1}', b'{"pids": 1}'])
def test_a_body_that_is_no_record_is_a_bad_request(http, body):
    answer = http("POST", RUN, body=body)

    assert answer.status == 400
    message = answer.json["error"]["message"]
    assert "expected a ProcessIdentity" in message or "body: is no JSON" in message


def test_a_worker_gets_its_workload_or_nothing_yet(http, master):
    start_secs = time.monotonic()
    assert http("GET", f"{RUN}/1-1/workload?wait=0.05").status == 204
    assert time.monotonic() - start_secs >= 0.05

    master.give(1)
    answer = http("GET", f"{RUN}/1-1/workload?wait=30")
    assert codec.from_plain(workload.Workload, answer.json) == master.workloads[1]


def test_waiting_workers_keep_nobody_waiting(http, master):
    num_workers = 60  # More than the threads for all other requests.
    with concurrent.futures.ThreadPoolExecutor(num_workers) as pool:
        waits = [
            pool.submit(http, "GET", f"/api/v1/trials/{number}/runs/{number}-1/workload?wait=60")
            for number in range(100, 100 + num_workers)
        ]
        while master.num_waiting < num_workers:
            time.sleep(0.01)
        # They wait for a minute, which ends after this.
        assert http("GET", "/api/v1/experiments").status == 200
        assert not any(wait.done() for wait in waits)
        for number in range(100, 100 + num_workers):
            master.give(number)
        assert {wait.result().status for wait in waits} == {200}


def test_results_and_ends_reach_the_master(http, master):
    master.give(1)
    result = workload.WorkloadResult(
        master.workloads[1],
        1.0,
        2.0,
        metrics={"loss": "NaN"},
        batch_metrics=[{"loss": 0.5}],
        checkpoint=workload.StoredCheckpoint(UUID, {"a": 1}),
        exited_reason=workload.ExitedReason.USER_CANCELED,
    )

    assert http("POST", f"{RUN}/1-1/results", body=codec.to_plain(result)).status == 200
    answer = http("POST", f"{RUN}/1-1/exit", body={"reason": "invalid_hp", "message": "no"})

    assert answer.status == 200
    assert master.results == [
        (1, "1-1", result),
        (1, "1-1", workload.ExitedReason.INVALID_HP, "no"),
    ]


def test_a_result_is_answered_with_what_to_do_next(http, master):
    master.give(1)
    work = master.workloads[1]
    result = codec.to_plain(workload.WorkloadResult(work, 1.0, 2.0))
    last = dataclasses.replace(work, kind=workload.WorkloadKind.TERMINATE)

    answers = [http("POST", f"{RUN}/1-1/results", body=result).json]
    ended = codec.to_plain(workload.WorkloadResult(last, 1.0, 2.0))
    answers.append(http("POST", f"{RUN}/1-1/results", body=ended).json)
    master.workloads.clear()
    answers.append(http("POST", f"{RUN}/1-1/results", body=result).json)

    assert answers == [codec.to_plain(work), None, None]


def test_a_damaged_checkpoint_is_answered_with_what_to_go_on_from(http, master):
    body = {"checkpoint": UUID, "damage": "weights is not there"}

    answer = http("POST", f"{RUN}/1-1/damage", body=body)

    assert (answer.status, answer.json["trial_id"]) == (200, 1)
    assert master.results == [(1, "1-1", UUID, "weights is not there")]


def test_a_process_says_what_it_waits_for(http, master):
    assert http("PUT", f"{RUN}/1-1/wait", body={"waits_for": "s3://b"}).status == 200
    assert http("PUT", f"{RUN}/1-1/wait", body={"waits_for": 3}).status == 400
    assert master.results == [(1, "1-1", "s3://b")]


def test_a_process_says_how_far_it_is(http, master):
    assert http("PUT", f"{RUN}/1-1/steps", body={"number": 3, "batches": 40}).status == 200
    assert http("PUT", f"{RUN}/1-1/steps", body={"number": 3, "batches": "x"}).status == 400
    assert master.results == [(1, "1-1", 3, 40)]


def test_slots_and_the_master_are_shown(http):
    assert http("GET", "/api/v1/slots").json[0]["trial_id"] == 1
    assert http("GET", "/api/v1/slots?after=0&limit=1").json == []
    assert http("GET", "/api/v1/master/summary").json["num_busy_slots"] == 1
    assert http("GET", "/api/v1/master").json["version"] == "1.2.3"
    assert http("GET", "/api/v1/master/status").json["experiments"][0]["eta_secs"] == 10.0


def test_the_interface_describes_itself(http):
    paths = http("GET", "/api/v1/openapi.json").json["paths"]

    nouns = {path.split("/")[3] for path in paths}
    assert nouns == {
        *("master", "slots", "experiments", "trials", "checkpoints", "events", "runs", "timeline"),
        *("tensorboard", "agents", "audit", "uploads", "nodes", "metrics", "models"),
        *("users", "views", "whoami"),
    }
    assert json.dumps(paths).count('"operationId"') == sum(map(len, paths.values()))


def test_answers_to_users_are_described_by_their_types(http):
    schema = http("GET", "/api/v1/openapi.json").json
    untyped = [
        f"{method} {path}"
        for path, methods in schema["paths"].items()
        for method, route in methods.items()
        for code, answer in route["responses"].items()
        for content in answer.get("content", {}).values()
        if "/runs" not in path
        and "/agents" not in path
        and "/sign-" not in path
        and "/tensorboard" not in path
        and content.get("schema") == {}
    ]

    assert untyped == []
    table = schema["components"]["schemas"]["Table"]["properties"]
    assert set(table) == {"cursor", "num_trials", "columns", "hparams", "metrics"}


@pytest.mark.slow
def test_small_answers_are_sent_at_once(http, url):
    """With Nagle's algorithm each of them would wait for a delayed acknowledgement."""
    http("GET", "/api/v1/experiments")

    opened = [each for each in gc.get_objects() if type(each) is socket.socket]
    client = next(each for each in opened if each.fileno() >= 0 and _find_peer(each) == url)
    place = client.getsockname()
    served = [each for each in opened if each.fileno() >= 0 and _find_peer(each) == _to_url(place)]
    assert len(served) == 1
    assert served[0].getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)


def _find_peer(connected):
    """Returns the address of the other side, or an empty text of what has none."""
    try:
        return _to_url(connected.getpeername())
    except OSError:
        return ""


def _to_url(place):
    return f"http://{place[0]}:{place[1]}" if len(place) == 2 else ""


@pytest.mark.parametrize(
    ("code", "status", "kind", "advice"),
    [
        (errno.ENOSPC, 507, "StoreFullError", "Make room on that disk, and it goes on."),
        (errno.EDQUOT, 507, "StoreFullError", "Make room on that disk, and it goes on."),
        (errno.EIO, 503, "StoreAwayError", "start the master again if it has ended."),
        (errno.EROFS, 503, "StoreAwayError", "Make it writable"),
        (errno.ESTALE, 503, "StoreAwayError", "start the master again if it has ended."),
    ],
)
def test_a_disk_that_is_full_or_lost_is_no_fault_of_the_master(
    http, master, monkeypatch, code, status, kind, advice
):
    def refuse(*_, **__):
        raise OSError(code, os.strerror(code), "/home/me/experiments/1")

    monkeypatch.setattr(master, "create_experiment", refuse)

    answer = http("POST", "/api/v1/experiments", body={"config_text": "a: 1"})

    error = answer.json["error"]
    assert (answer.status, error["kind"]) == (status, kind)
    assert error["message"].startswith("/home/me/experiments/1: ")
    assert error["message"].count(advice) == 1


def test_a_full_database_has_its_own_status():
    assert responses.find_status(errors.StoreFullError("")) == 507
    assert responses.find_status(errors.StoreAwayError("")) == 503


def test_a_request_passes_five_steps_before_its_route(app):
    found = [each.cls for each in app.user_middleware]
    assert [each.__name__ for each in found if each.__module__.startswith("quintain.")] == [
        "AnswerHeaders", "RequestLife", "HostCheck", "TokenCheck", "BodyCheck",
    ]  # fmt: skip
