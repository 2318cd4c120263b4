"""A search by the command line whose checkpoints are in an object store."""

import contextlib
import functools
import json
import os
import pathlib
import subprocess
import sys
import uuid

import pytest

from quintain import store as stores
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


def run_quintain(home, *arguments):
    done = subprocess.run(
        [sys.executable, "-m", "quintain.cli.main", *map(str, arguments)],
        env={**os.environ, "QUINTAIN_HOME": str(home)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


@pytest.fixture
def quintain(tmp_path):
    return functools.partial(run_quintain, tmp_path / "home")


@pytest.mark.long("tests/storage shows retries without a search")
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
    # A master that ends waits for no store that is too slow for it; the next one deletes the rest.
    with (
        contextlib.closing(stores.open_store(tmp_path / "home/quintain.db")) as store,
        store.reading() as session,
    ):
        postponed = {each.name for each in session.list_deletions()}
    assert set(kept) <= {each.name for each in storage.list()} <= {*kept, *postponed}
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


def measure(directory, storage, killed_at):
    """Runs the trial of `DRAWING`; returns what it measured, and how often it was restarted."""
    run = functools.partial(run_quintain, directory / "home")
    (directory / "marks").mkdir()
    path = directory / "drawing.yaml"
    fields = {"marks": directory / "marks", "killed_at": killed_at, "storage": storage}
    path.write_text(DRAWING.format(**fields))
    assert "Experiment 1 is COMPLETED" in run("experiment", "create", path, DRAWING_TRIAL)
    rows = json.loads(run("trial", "metrics", 1, "--json"))
    found = [(row["group"], row["total_batches"], row["metrics"]) for row in rows]
    return found, run("trial", "logs", 1)


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    return measure(tmp_path_factory.mktemp("undisturbed"), "{save_trial_latest: 1}", [])[0]


@pytest.mark.long("Kills: test_uploads_beside.py uploads beside, and a search outlives its store")
def test_trial_killed_while_it_trains_beside_its_uploads_measures_the_same(
    undisturbed, given, s3, s3_port, tmp_path
):
    road = given.Road(s3_port, put_secs=0.4)
    prefix = uuid.uuid4().hex
    storage = f'{{type: s3, bucket: runs, prefix: {prefix}, endpoint_url: "{road.url}"}}'

    # An upload takes over a second, a batch none: these are trained while one runs.
    found, _ = measure(tmp_path, storage, [11, 18])

    assert found == undisturbed
    assert sorted(each.name for each in (tmp_path / "marks").iterdir()) == ["11", "18"]
    storage = fsspec_storage.FsspecStorage(f"s3://runs/{prefix}", s3)
    [kept] = storage.list()
    assert storage.find_damage(kept.name, {}) is None
    road.close()


@pytest.mark.long("test_object_stores.py refuses trials, and searches outlive their store")
def test_trial_that_is_refused_for_a_while_measures_the_same(undisturbed, given, store, tmp_path):
    road = given.Road(store.port, put_secs=0.2)
    prefix = uuid.uuid4().hex
    storage = json.dumps(store.section("runs", prefix, road.port))
    road.refuse_after(6_000, store.refusal(), again_secs=2.0)

    found, log = measure(tmp_path, storage, [])

    assert found == undisturbed
    assert road.num_refused
    assert "failed and is tried again" in log
    assert "SIGKILL" not in log
    storage = fsspec_storage.FsspecStorage(store.url("runs", prefix), store.options())
    [kept] = storage.list()
    assert storage.find_damage(kept.name, {}) is None
    road.close()


def find_files(directory):
    return [path for path in directory.rglob("*") if path.is_file()]
