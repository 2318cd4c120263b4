import json

import pytest

from quintain.client.notebook import run_notes


@pytest.fixture
def run_dir(home, tmp_path):
    """A run that was started here and is noted in the home."""
    path = tmp_path.resolve() / "my runs" / "<b>"
    path.mkdir(parents=True)
    (path / "params.yaml").write_text("experiment: translation/local\ntrainer: {train_steps: 2}\n")
    lines = [{"step": 1, "metrics": {"loss": 0.5}}, {"step": 2, "metrics": {"loss": None}}]
    (path / "training.jsonl").write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    run_notes.note(home, str(path), "translation/local")
    return path


def test_runs_that_were_started_here_are_listed_and_told_of(http, run_dir):
    (listed,) = http("GET", "/api/v1/runs").json
    details = http("GET", f"/api/v1/runs/{listed['name']}").json
    curves = http("GET", f"/api/v1/runs/{listed['name']}/curves").json
    later = http("GET", f"/api/v1/runs/{listed['name']}/curves?after={curves['cursor']}").json
    samples = http("GET", f"/api/v1/runs/{listed['name']}/samples").json

    assert (listed["path"], listed["label"]) == (str(run_dir), "my runs/<b>")
    assert (listed["state"], listed["step"], listed["metrics"]) == ("ended", 2, {"loss": "NaN"})
    assert details["run"] == listed
    assert details["params"] == {"trainer": {"train_steps": 2}}
    assert curves["training"]["metrics"] == {"loss": [0.5, "NaN"]}
    assert later["training"] == {"steps": [], "times": [], "metrics": {}}
    assert not later["is_reset"]
    assert samples["files"] == samples["rows"] == []


@pytest.mark.parametrize("path", ["/nothing", "/nothing/curves", "/..%2f..%2fetc/samples"])
def test_a_run_that_there_is_not_is_not_found(http, run_dir, path):
    answer = http("GET", f"/api/v1/runs{path}")

    assert (answer.status, answer.json["error"]["kind"]) == (404, "NotFoundError")


def test_folders_are_added_while_the_master_runs(http, tmp_path):
    path = tmp_path.resolve() / "elsewhere" / "deeper" / "run"
    path.mkdir(parents=True)
    (path / "params.yaml").write_text("experiment: translation/local\n")
    assert http("GET", "/api/v1/runs").json == []

    for _ in range(2):
        answer = http("POST", "/api/v1/runs/folders", body={"paths": [f"{tmp_path}/elsewhere"]})
        assert answer.status == 200
        (listed,) = http("GET", "/api/v1/runs").json
        assert (listed["path"], listed["label"]) == (str(path), "deeper/run")

    for wrong in ("elsewhere", "", f"{path}/params.yaml", f"{tmp_path}/nowhere", "a" * 5000, "/\0"):
        answer = http("POST", "/api/v1/runs/folders", body={"paths": [wrong]})
        assert answer.status == 400, wrong
    assert http("POST", "/api/v1/runs/folders", body={"paths": ["/"] * 101}).status == 400
