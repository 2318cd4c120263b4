import pytest

from quintain.client.notebook import run_notes
from quintain.server import tensorboards


@pytest.fixture
def opened(monkeypatch):
    """What was asked for; nothing is started."""
    shown = []

    def note(self, **what):
        shown.append(what)
        return "http://127.0.0.1:1/x/"

    monkeypatch.setattr(tensorboards.TensorBoards, "open", note)
    return shown


def test_trials_and_runs_are_opened_in_tensorboard(http, home, tmp_path, opened):
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "params.yaml").write_text("experiment: a/b\n")
    run_notes.note(home, str(tmp_path / "run"), "a/b")
    (run,) = http("GET", "/api/v1/runs").json

    body = {"trial_ids": [2, 1], "runs": [run["name"]]}
    answer = http("POST", "/api/v1/tensorboard", body=body)

    assert (answer.status, answer.json) == (200, {"url": "http://127.0.0.1:1/x/"})
    path = (tmp_path / "run").resolve()
    assert opened == [{"experiment_id": None, "trial_ids": [2, 1], "run_dirs": [path]}]


@pytest.mark.parametrize(
    ("body", "status", "text"),
    [
        ({}, 400, "expected experiment_id, trial_ids or runs"),
        ({"trial_ids": [99]}, 404, "99"),
        ({"experiment_id": 99}, 404, "99"),
        ({"runs": ["/etc"]}, 404, "/etc"),
        ({"trial": [1]}, 400, "trial"),
        ({"trial_ids": ["--port"]}, 400, "trial_ids"),
    ],
)
def test_what_there_is_not_is_not_opened(http, opened, body, status, text):
    answer = http("POST", "/api/v1/tensorboard", body=body)

    assert answer.status == status
    assert text in answer.json["error"]["message"]
    assert opened == []
