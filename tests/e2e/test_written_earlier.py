"""A run, an export and a home that commit 25cd1e0b wrote, before the files moved into rooms.

`run`: ten steps of a translator of one layer, `params.yaml` and checkpoint. `export`: the same as a
SavedModel. `home`: a search of six trials over a Keras trial, paused when three had ended.
"""

import json
import os
import pathlib
import sqlite3
import subprocess
import sys
import tarfile

import pytest

pytestmark = [pytest.mark.slow, pytest.mark.e2e]

WRITTEN = pathlib.Path(__file__).parent / "written_earlier"
LOSS_AT_20 = 6.867091655731201
"""Validation loss of the run at step 20, as 25cd1e0b went on with it."""

BEST = {1: 2.45208, 2: 0.96917, 3: 2.9508, 4: 2.9871, 5: 0.33291, 6: 0.0028994}
"""Best metrics of the trials, as 25cd1e0b ended the search."""


def unpack(name, directory):
    with tarfile.open(WRITTEN / f"{name}.tar.gz") as archive:
        archive.extractall(directory, filter="data")
    return directory / name


def run(*arguments, home=None):
    environment = {**os.environ, **({"QUINTAIN_HOME": str(home)} if home else {})}
    command = [sys.executable, "-m", "quintain.cli.main", *map(str, arguments)]
    process = subprocess.run(
        command, capture_output=True, text=True, env=environment, timeout=300, check=False
    )
    assert process.returncode == 0, process.stderr
    return process.stdout


def test_a_run_goes_on(tmp_path):
    model_dir = unpack("run", tmp_path)

    run("train", f"--model_dir={model_dir}", "--set", "trainer.train_steps=20")

    last = json.loads((model_dir / "evaluations.jsonl").read_text().splitlines()[-1])
    assert last["step"] == 20
    assert last["metrics"]["validation_loss"] == pytest.approx(LOSS_AT_20, rel=1e-4)


def test_an_export_answers_as_its_run(tmp_path):
    texts = "the third of May"
    export, model_dir = unpack("export", tmp_path), unpack("run", tmp_path)

    found = run("translate", f"--model_dir={export}", texts)

    assert found == run("translate", f"--model_dir={model_dir}", texts)
    assert found.strip()


def test_a_paused_search_goes_on(tmp_path):
    home = unpack("home", tmp_path)
    with sqlite3.connect(home / "quintain.db") as database:
        database.execute(
            "UPDATE experiments SET model_dir = ?", [str(home / "experiments/1/model_dir")]
        )
    database.close()

    run("experiment", "activate", 1, home=home)
    run("experiment", "wait", 1, home=home)

    trials = json.loads(run("experiment", "list-trials", 1, "--json", home=home))
    run("master", "stop", home=home)
    assert {trial["state"] for trial in trials} == {"COMPLETED"}
    assert {trial["id"]: trial["best_metric"] for trial in trials} == pytest.approx(BEST, rel=1e-3)
