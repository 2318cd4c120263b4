import io
import json
import pathlib

import pytest

from quintain import errors
from quintain.cli.training import staged_runs
from quintain.files import file_io


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


class Helper:
    """A process that has copied a run, and can't upload it."""

    def __init__(self):
        self.stdin = io.StringIO()
        self.stdout = io.StringIO('{"files": 0}\n{"error": "s3://b/run: it is away."}\n')

    def __enter__(self):
        return self

    def __exit__(self, *_):
        return None


def test_a_copy_that_was_not_uploaded_is_there_and_to_be_moved_before_a_repetition(
    tmp_path, monkeypatch
):
    monkeypatch.setattr(staged_runs, "_start", lambda *_: Helper())
    monkeypatch.setattr(staged_runs.fetched_files, "private_directory", lambda _: tmp_path)

    with (
        pytest.raises(errors.OutputError, match=r"away\. It could not be uploaded") as raised,
        staged_runs.training("s3://b/run") as copy,
    ):
        pathlib.Path(copy, "ckpt-1.index").write_text("")

    assert f"The copy is in {copy}. Move it elsewhere before the command" in str(raised.value)
    assert pathlib.Path(copy, "ckpt-1.index").exists()


def test_of_an_export_that_was_not_uploaded_no_copy_is_promised(monkeypatch):
    monkeypatch.setattr(staged_runs, "_start", lambda *_: Helper())

    with (
        pytest.raises(errors.OutputError, match=r"away\. It could not be uploaded\.$"),
        staged_runs.writing("s3://b/run", overwrite=False) as copy,
    ):
        pathlib.Path(copy).mkdir()

    assert not pathlib.Path(copy).exists()
