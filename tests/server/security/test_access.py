import json

import pytest

from quintain.master.processes import launch_tokens
from quintain.records import team
from quintain.records.rows import codec, trial

KEY = launch_tokens.LaunchKey(bytes(32))
UUID = "0b1c2d3e-0000-0000-0000-000000000001"
RUN = "/api/v1/trials/1/runs"
OWN = KEY.build_token(1, "1-1")


def test_a_launch_does_its_own_work_with_its_own_token(http, master):
    identity = codec.to_plain(trial.ProcessIdentity(12, 3.5, "1-1"))
    bearer = f"Bearer {OWN}"
    assert http("POST", RUN, authorization=bearer, body=identity).status == 200
    assert http("GET", f"{RUN}/1-1/workload?wait=0", authorization=bearer).status == 204
    body = {"reason": "errored"}
    assert http("POST", f"{RUN}/1-1/exit", authorization=bearer, body=body).status == 200
    assert len(master.results) == 1


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/api/v1/master"),
        ("POST", "/api/v1/experiments"),
        ("GET", "/api/v1/experiments"),
        ("GET", "/api/v1/trials/1"),
        ("GET", "/api/v1/trials/1/logs"),
        ("POST", "/api/v1/trials/1/kill"),
        ("DELETE", f"/api/v1/checkpoints/{UUID}"),
        ("GET", f"/api/v1/checkpoints/{UUID}/files/weights"),
        ("POST", "/api/v1/master/stop"),
        ("GET", "/openapi.json"),
        ("GET", f"{RUN}/1-2/workload"),
        ("GET", f"{RUN}/1-10/workload"),
        ("GET", "/api/v1/trials/2/runs/1-1/workload"),
        ("GET", "/api/v1/trials/01/runs/1-1/workload"),
        ("POST", "/api/v1/trials/11/runs"),
        ("POST", "/api/v1/trials/2/runs"),
        ("POST", f"{RUN}/1-2/exit"),
        ("POST", f"{RUN}/../../../master/stop"),
        ("POST", f"{RUN}/1-1/../../../../master/stop"),
    ],
)
def test_the_token_of_a_launch_opens_nothing_else(http, master, stops, method, path):
    body = {"reason": "errored"} if method == "POST" else None
    answer = http(method, path, authorization=f"Bearer {OWN}", body=body)
    assert answer.status in (403, 404), answer.text
    assert answer.status == 403 or ".." in path
    assert (master.calls, master.results, stops) == ([], [], [])


def test_a_launch_can_not_say_that_it_is_another_one(http):
    identity = codec.to_plain(trial.ProcessIdentity(12, 3.5, "1-2"))
    answer = http("POST", RUN, authorization=f"Bearer {OWN}", body=identity)
    assert answer.status == 403
    assert answer.json["error"]["message"] == (
        "launch_id: got '1-2', but the token is that of '1-1'."
    )


@pytest.mark.parametrize(
    "token",
    [
        launch_tokens.LaunchKey(bytes(31) + b"1").build_token(1, "1-1"),
        OWN[:-1] + ("0" if OWN[-1] != "0" else "1"),
        OWN.replace("1/1-1/", "2/1-1/"),
        OWN.replace("1/1-1/", "1/1-2/"),
        OWN.replace("1/1-1/", "01/1-1/"),
        OWN.replace("1/1-1/", "¹/1-1/"),
        "1/1-1/",
        "1/1-1",
        "//",
        "9" * 5000 + "/1-1/ab",
        "ä",
        "",
    ],
)
def test_a_token_that_was_not_made_here_is_worth_nothing(http, token):
    authorization = f"Bearer {token}".encode().decode("latin-1")
    for path in (f"{RUN}/1-1/workload?wait=0", "/api/v1/master"):
        assert http("GET", path, authorization=authorization).status == 401


def test_a_checkpoint_can_not_be_a_path(http, master):
    result = {
        "workload": {"kind": "CHECKPOINT", "experiment_id": 1, "trial_id": 1, "number": 1},
        "start_time": 1.0,
        "end_time": 2.0,
    }
    for uuid in ("../../x", "/etc", "..", "", "a/b"):
        body = {**result, "checkpoint": {"uuid": uuid, "files": {}}}
        answer = http("POST", f"{RUN}/1-1/results", authorization=f"Bearer {OWN}", body=body)
        assert answer.status == 400, answer.text
        assert "checkpoint.uuid" in answer.json["error"]["message"]
    assert master.results == []


def test_larger_bodies_are_taken_from_trials_than_from_others(http, monkeypatch):
    text = json.dumps({"reason": "errored", "message": "a" * (9 * 2**20)}).encode()
    path = f"{RUN}/1-1/exit"
    assert http("POST", path, authorization=f"Bearer {OWN}", body=text).status == 200
    assert http("POST", path, body=text).status == 413


def test_a_user_is_known_by_a_token_of_their_own_until_it_is_revoked(http, home, over_http):
    over_http.grant_role("anna", team.Role.VIEWER)
    anna = home.user_tokens.load("anna")
    bearer = f"Bearer {anna}"
    assert http("GET", "/api/v1/master", authorization=bearer).status == 200
    for wrong in (anna[:-1], f"bob{anna[4:]}", anna.replace("anna", "owner"), f"{anna}x"):
        assert http("GET", "/api/v1/master", authorization=f"Bearer {wrong}").status == 401

    home.user_tokens.revoke("anna")

    assert http("GET", "/api/v1/master", authorization=bearer).status == 401


def test_the_link_of_a_user_signs_in_that_user(http, home, app, over_http):
    over_http.grant_role("anna", team.Role.VIEWER)
    bearer = f"Bearer {home.user_tokens.load('anna')}"
    link = http("POST", "/api/v1/master/sign-in", authorization=bearer, body={}).json["url"]
    assert app.state.parts.sign_in.codes.use(link.partition("code=")[2]) == "anna"
