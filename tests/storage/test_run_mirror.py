import os
import pathlib
import subprocess
import sys
import uuid

import pytest

from quintain import errors
from quintain.storage import run_mirror

KILL_AND_RESUME = pathlib.Path(__file__).parents[1] / "integration" / "kill_and_resume.py"


@pytest.fixture
def run(tmp_path):
    """A run with one checkpoint."""
    directory = tmp_path / "run"
    (directory / "train").mkdir(parents=True)
    add_checkpoint(directory, 10)
    (directory / "train/events.out").write_text("1")
    return directory


def add_checkpoint(directory, step, content="w"):
    (directory / f"ckpt-{step}.data-00000-of-00001").write_text(content)
    (directory / f"ckpt-{step}.index").write_text(str(step))
    (directory / "checkpoint").write_text(f"ckpt-{step}")


@pytest.fixture
def mirror(url):
    return run_mirror.RunMirror(url)


def read(url, tmp_path):
    """Returns what somebody else finds."""
    target = tmp_path / uuid.uuid4().hex
    target.mkdir()
    run_mirror.RunMirror(url).pull(target)
    return {path: (target / path).read_text() for path in run_mirror.list_paths(target)}


def contents(directory):
    return {path: (directory / path).read_text() for path in run_mirror.list_paths(directory)}


def test_run_comes_back_as_it_was(mirror, run, url, tmp_path):
    (tmp_path / "nothing").mkdir()
    assert mirror.pull(tmp_path / "nothing") == 0
    mirror.push(run)
    assert read(url, tmp_path) == contents(run)


@pytest.mark.parametrize("num_calls", range(12))
def test_torn_upload_leaves_one_generation_whole(
    mirror, run, url, tmp_path, monkeypatch, num_calls
):
    mirror.push(run)
    former = contents(run)
    (run / "ckpt-10.index").unlink()
    add_checkpoint(run, 20)
    (run / "train/events.out").write_text("12")
    left = [num_calls]

    def cut(function):
        def call(*args, **kwargs):
            if not left[0]:
                raise PermissionError(13, "cut")
            left[0] -= 1
            return function(*args, **kwargs)

        return call

    for name in ("put_file", "pipe_file", "rm_file"):
        monkeypatch.setattr(mirror.calls.system, name, cut(getattr(mirror.calls.system, name)))

    try:
        mirror.push(run)
        mirror.settle(run)
    except errors.CheckpointError:
        pass

    assert read(url, tmp_path) in (former, contents(run))
    assert num_calls < 10 or read(url, tmp_path) == contents(run)


def test_changed_files_are_back_at_their_places_at_the_end(mirror, run, url, tmp_path):
    mirror.push(run)
    add_checkpoint(run, 20)
    mirror.push(run)
    (run / "ckpt-10.index").unlink()
    mirror.push(run)
    mirror.settle(run)

    files = mirror.calls.system.find(mirror.calls.root)
    found = {path[len(mirror.calls.root) + 1 :] for path in files} - {run_mirror.FILE_NAME}
    assert found == set(contents(run))
    assert mirror.calls.system.cat_file(mirror._path("checkpoint")) == b"ckpt-20"
    assert read(url, tmp_path) == contents(run)


def test_files_that_came_by_other_ways_are_a_run_too(mirror, run, url, tmp_path):
    mirror.calls.system.put_file(str(run / "checkpoint"), mirror._path("checkpoint"))

    assert read(url, tmp_path) == {"checkpoint": "ckpt-10"}


def test_file_that_is_not_what_was_written_is_not_taken(mirror, run, url, tmp_path):
    mirror.push(run)
    mirror.calls.system.pipe_file(mirror._path("ckpt-10.index"), b"99")

    with pytest.raises(errors.CheckpointError, match=r"ckpt-10\.index: is not what was written"):
        read(url, tmp_path)


@pytest.mark.parametrize(
    "content",
    [
        b"{",
        b"[]",
        b'{"format": 9}',
        b'{"format": 1, "number": 1, "writer": "", "files": {"../x": {"key": "a", "num_bytes": 1, '
        b'"sha256": ""}}}',
    ],
)
def test_description_that_is_damaged_is_refused(mirror, url, tmp_path, content):
    mirror.calls.system.pipe_file(mirror._path(run_mirror.FILE_NAME), content)

    with pytest.raises(errors.CheckpointError, match="can't be understood"):
        read(url, tmp_path)


def test_second_training_of_a_run_ends_the_first(mirror, run, url, tmp_path):
    mirror.push(run)
    second = run_mirror.RunMirror(url)
    (tmp_path / "second").mkdir()
    second.pull(tmp_path / "second")
    second.claim()
    add_checkpoint(run, 20)

    with pytest.raises(errors.CheckpointError, match="another process writes this run"):
        mirror.push(run)

    second.push(run)
    assert read(url, tmp_path) == contents(run)


def test_snapshot_has_all_of_the_checkpoint_that_it_names(run, tmp_path, monkeypatch):
    link, target = os.link, tmp_path / "snapshot"

    def save_meanwhile(source, copied):
        link(source, copied)
        if not (run / "ckpt-20.index").exists():
            add_checkpoint(run, 20, "new")
            (run / "ckpt-10.index").unlink()

    monkeypatch.setattr(os, "link", save_meanwhile)
    (run / "run.lock").touch()
    (run / "ckpt-30.incomplete").mkdir()
    (run / "ckpt-30.incomplete/part").touch()

    taken = run_mirror.take_snapshot(run, target)

    assert taken == {"checkpoint": b"ckpt-20"}
    assert (target / "ckpt-20.data-00000-of-00001").read_text() == "new"
    assert set(contents(target)) == {*contents(run)}
    assert not any("30" in path or "lock" in path for path in contents(target))


@pytest.mark.long(
    "test_kill_and_resume.py kills a run; the tests beside it read and write the copy"
)
@pytest.mark.slow
@pytest.mark.e2e
def test_killed_run_in_an_object_store_ends_the_same_to_the_bit(s3, tmp_path):
    arguments = ["--kills=1", "--seed=1", "--train_steps=100", f"--workdir={tmp_path}"]

    done = subprocess.run(
        [sys.executable, KILL_AND_RESUME, *arguments, f"--url=s3://runs/{uuid.uuid4().hex}/run"],
        env={**os.environ, "AWS_ENDPOINT_URL": s3["endpoint_url"], "TMPDIR": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 0, done.stdout + done.stderr
    assert "1 kills, and the run ended with the same weights and metrics" in done.stdout
    assert "not-to-be-seen" not in done.stdout + done.stderr


@pytest.mark.long("test_object_stores.py shows it")
@pytest.mark.slow
@pytest.mark.e2e
def test_bucket_that_is_missing_is_said_before_anything_is_begun(s3, tmp_path):
    arguments = ["--experiment=translation/local", "--model_dir=s3://no-such-bucket/run"]

    done = subprocess.run(
        [sys.executable, "-m", "quintain.cli.main", "train", *arguments],
        env={**os.environ, "AWS_ENDPOINT_URL": s3["endpoint_url"], "TMPDIR": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 2
    assert "there is no 'no-such-bucket'" in done.stderr
    assert "Starting" not in done.stderr
