"""Every kind of trial is searched, on real data, by the command line."""

import json
import os
import pathlib
import subprocess
import sys

import pytest

pytestmark = [pytest.mark.slow, pytest.mark.e2e]

EXAMPLES = pathlib.Path(__file__).parents[2] / "examples" / "platform"


def search(home, config, *options):
    arguments = [sys.executable, "-m", "quintain.cli.main", "experiment", "create", config]
    done = subprocess.run(
        [*map(str, arguments), *map(str, options)],
        env={**os.environ, "QUINTAIN_HOME": str(home)},
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    listed = subprocess.run(
        [sys.executable, "-m", "quintain.cli.main", "experiment", "list-trials", "1", "--json"],
        env={**os.environ, "QUINTAIN_HOME": str(home)},
        capture_output=True,
        text=True,
        check=True,
    )
    return json.loads(listed.stdout)


@pytest.mark.parametrize(
    ("example", "config", "options", "num_trials", "expected"),
    [
        ("keras_digits", "adaptive.yaml", ["searcher.max_trials=6"], 6, 0.9),
        ("keras_digits", "const.yaml", [], 1, 0.85),
        ("tensorflow_digits", "adaptive.yaml", ["searcher.max_trials=6"], 6, 0.9),
        ("estimator_digits", "adaptive.yaml", ["searcher.max_trials=6"], 6, 0.9),
        ("estimator_digits", "custom.yaml", [], 1, 0.85),
        (
            "task_translation",
            "adaptive.yaml",
            ["searcher.max_trials=2", "searcher.max_length.batches=20"],
            2,
            0.0,
        ),
    ],
)
def test_the_examples_are_searched(tmp_path, example, config, options, num_trials, expected):
    directory = EXAMPLES / example
    arguments = [part for option in options for part in ("--set", option)]
    if example != "task_translation":
        arguments.insert(0, directory)
    trials = search(tmp_path / "home", directory / config, *arguments)
    assert [trial["state"] for trial in trials] == ["COMPLETED"] * num_trials
    assert max(trial["best_metric"] for trial in trials) > expected


def test_a_population_of_keras_models_evolves(tmp_path):
    directory = EXAMPLES / "keras_digits"
    trials = search(
        tmp_path / "home",
        directory / "pbt.yaml",
        directory,
        "--set",
        "searcher.population_size=4",
        "--set",
        "searcher.num_rounds=2",
    )
    assert len(trials) == 5
    clones = [trial for trial in trials if trial["parent_trial_id"] is not None]
    assert len(clones) == 1
    assert all(trial["state"] == "COMPLETED" for trial in trials)
