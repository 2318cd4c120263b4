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
checkpoint_storage: {{type: s3, bucket: {bucket}, prefix: "{prefix}", endpoint_url: "{url}"}}
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
    path.write_text(CONFIG.format(bucket="runs", prefix=prefix, url=road.url))
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
    assert "knows all checkpoints" in quintain("checkpoint", "orphans")
    quintain("checkpoint", "delete", kept[0], "--yes")
    assert [each.name for each in storage.list()] == kept[1:]
    secrets = [b"not-to-be-seen" in each.read_bytes() for each in find_files(tmp_path)]
    assert secrets
    assert not any(secrets)
    road.close()


def find_files(directory):
    return [path for path in directory.rglob("*") if path.is_file()]


def test_nothing_is_created_where_checkpoints_can_not_be_written(quintain, s3, tmp_path):
    path = tmp_path / "toy.yaml"
    url = s3["endpoint_url"]
    path.write_text(CONFIG.format(bucket="no-such-bucket", prefix="a", url=url))

    shown = quintain("experiment", "create", path, TOY, "--slots", 2, code=2)

    assert "there is no 'no-such-bucket'" in shown
    assert "There are no experiments" in quintain("experiment", "list")
