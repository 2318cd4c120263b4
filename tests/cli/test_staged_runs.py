import json

import pytest

from quintain import errors, file_io
from quintain.cli import staged_runs


@staged_runs.trains
def train(**flags):
    return flags


SEVERAL = [
    {"local_workers": 2},
    {"mode": "continuous_eval"},
    {"mode": "continuous_train_and_eval"},
]


@pytest.mark.parametrize("flags", SEVERAL)
@pytest.mark.parametrize("url", ["s3://b/run", "gcs://b/run", "az://b/run", "abfs://b/run"])
def test_several_processes_have_no_copies_of_their_own(url, flags):
    with pytest.raises(errors.ConfigError, match=f"got '{url}' together with --.*one of gs://"):
        train(model_dir=url, **flags)


@pytest.mark.parametrize("flags", SEVERAL)
def test_several_processes_use_tensorflow_on_google(monkeypatch, flags):
    asked = []
    monkeypatch.setattr(file_io, "exists", lambda path: bool(asked.append(path)))

    assert train(model_dir="gs://b/run", **flags) == {"model_dir": "gs://b/run", **flags}
    assert asked == ["gs://b/run/.quintain-run.json"]


def test_several_processes_leave_a_run_alone_that_one_wrote_through_a_copy(monkeypatch):
    cluster = {"cluster": {"worker": ["a:1", "b:1"]}, "task": {"type": "worker", "index": 0}}
    monkeypatch.setenv("TF_CONFIG", json.dumps(cluster))
    monkeypatch.setattr(file_io, "exists", lambda path: True)

    with pytest.raises(errors.ConfigError, match=r"cluster in TF_CONFIG.*\.quintain-run\.json"):
        train(model_dir="gs://b/run")


@pytest.mark.parametrize("url", ["gs://b/run", "s3://b/run", "az://b/run", "memory://b"])
def test_one_process_works_on_a_copy(url):
    assert staged_runs.is_staged(url)
    assert not staged_runs.is_staged("ram://b")
    assert not staged_runs.is_staged("runs/a")
