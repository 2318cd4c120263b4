"""A search by the command line whose checkpoints are in an object store."""

import json
import os
import pathlib
import subprocess
import sys
import uuid

import pytest

from quintain.storage import fsspec_storage

pytestmark = [pytest.mark.slow, pytest.mark.e2e]

DRAWING_TRIAL = pathlib.Path(__file__).parent / "drawing_trial"
TOY = pathlib.Path(__file__).parents[1] / "e2e" / "toy_trial"
CONFIG = """
name: toy
entrypoint: model_def:ToyTrial
data: {{secs_per_batch: 0.02}}
hyperparameters:
  rate: {{type: double, minval: 0.1, maxval: 1.0}}
scheduling_unit: 5
min_checkpoint_period: {{batches: 5}}
searcher: {{name: random, metric: error, max_length: {{batches: 30}}, max_trials: 2}}
reproducibility: {{experiment_seed: 7}}
checkpoint_storage:
  {{type: s3, bucket: runs, prefix: "{prefix}", endpoint_url: "{url}",
    options: {{config_kwargs: {{read_timeout: 2}}}}}}
"""


@pytest.fixture
def quintain(s3, tmp_path):
    environment = {**os.environ, "QUINTAIN_HOME": str(tmp_path / "home")}

    def run(*arguments, code=0):
        done = subprocess.run(
            [sys.executable, "-m", "quintain.cli.main", *map(str, arguments)],
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == code, done.stdout + done.stderr
        return done.stdout + done.stderr

    return run


def test_search_outlives_its_object_store(quintain, given, s3, s3_port, tmp_path):
    road = given.Road(s3_port)
    prefix = f"{uuid.uuid4().hex}/team a"
    path = tmp_path / "toy.yaml"
    path.write_text(CONFIG.format(prefix=prefix, url=road.url))
    # The server goes while a checkpoint is written, and comes after a while.
    road.close_after(60_000, again_secs=1.5)

    shown = quintain("experiment", "create", path, TOY, "--slots", 2)

    assert "Experiment 1 is COMPLETED" in shown
    for trial in json.loads(quintain("experiment", "list-trials", 1, "--json")):
        expected = 100.0 * (1 - 0.01 * trial["hparams"]["rate"]) ** 30
        assert trial["best_metric"] == pytest.approx(expected, rel=1e-9)
    kept = [
        each["uuid"]
        for each in json.loads(quintain("checkpoint", "list", "--json"))
        if each["state"] == "COMPLETED"
    ]
    storage = fsspec_storage.FsspecStorage(f"s3://runs/{prefix}", s3)
    assert [each.name for each in storage.list()] == sorted(kept)
    assert len(kept) == 2
    quintain("checkpoint", "download", kept[0], "-o", tmp_path / "copy")
    assert json.loads((tmp_path / "copy/state.json").read_text())["batches"] == 30
    secrets = [b"not-to-be-seen" in each.read_bytes() for each in find_files(tmp_path)]
    assert secrets
    assert not any(secrets)
    road.close()


DRAWING = """
name: drawing
entrypoint: model_def:Drawing
data: {{marks: "{marks}", killed_at: {killed_at}}}
hyperparameters: {{rate: 0.5}}
scheduling_unit: 5
min_checkpoint_period: {{batches: 10}}
max_restarts: 9
searcher: {{name: single, metric: error, max_length: {{batches: 30}}}}
reproducibility: {{experiment_seed: 7}}
checkpoint_storage: {storage}
"""


def test_trial_killed_while_it_trains_beside_its_uploads_measures_the_same(
    quintain, given, s3, s3_port, tmp_path
):
    road = given.Road(s3_port, put_secs=0.4)
    prefix = uuid.uuid4().hex
    remote = f'{{type: s3, bucket: runs, prefix: {prefix}, endpoint_url: "{road.url}"}}'
    (tmp_path / "marks").mkdir()

    def measure(number, storage, killed_at):
        path = tmp_path / f"{number}.yaml"
        fields = {"marks": tmp_path / "marks", "killed_at": killed_at, "storage": storage}
        path.write_text(DRAWING.format(**fields))
        shown = quintain("experiment", "create", path, DRAWING_TRIAL, "--slots", 1)
        assert f"Experiment {number} is COMPLETED" in shown
        rows = json.loads(quintain("trial", "metrics", number, "--json"))
        return [(row["group"], row["total_batches"], row["metrics"]) for row in rows]

    expected = measure(1, "{save_trial_latest: 1}", [])
    # An upload takes over a second, a batch none: these are trained while one runs.
    found = measure(2, remote, [11, 18])

    assert found == expected
    assert sorted(each.name for each in (tmp_path / "marks").iterdir()) == ["11", "18"]
    storage = fsspec_storage.FsspecStorage(f"s3://runs/{prefix}", s3)
    [kept] = storage.list()
    assert storage.find_damage(kept.name, {}) is None
    road.close()


def find_files(directory):
    return [path for path in directory.rglob("*") if path.is_file()]
