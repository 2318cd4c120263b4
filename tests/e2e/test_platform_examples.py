"""Every kind of trial is searched, on real data, by the command line."""

import json
import os
import pathlib
import re
import subprocess
import sys
import time

import pytest

from quintain.client.home import home as home_lib

pytestmark = [pytest.mark.slow, pytest.mark.e2e]

_CHECKED_BY_ANOTHER = {
    ("keras_digits", "adaptive.yaml"), ("keras_digits", "const.yaml"),
    ("estimator_digits", "adaptive.yaml"),
}  # fmt: skip
"""Before it is searched, code is tried; that of these is the code of other searches."""

EXAMPLES = pathlib.Path(__file__).parents[2] / "examples" / "platform"


def start(home, *arguments):
    return subprocess.Popen(
        [sys.executable, "-m", "quintain.cli.main", *map(str, arguments)],
        env={**os.environ, "QUINTAIN_HOME": str(home)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def run(home, *arguments):
    process = start(home, *arguments)
    stdout, stderr = process.communicate(timeout=300)
    assert process.returncode == 0, stdout + stderr
    return stdout


@pytest.fixture(scope="module")
def search(tmp_path_factory):
    """Searches, and returns the trials. One master has what the trials of an example import."""
    home = tmp_path_factory.mktemp("home")
    master = start(home, "master", "start")
    while home_lib.find_master(home_lib.find_home(str(home))) is None:
        assert master.poll() is None, master.stderr.read()
        time.sleep(0.05)

    def search(config, *options):
        created = run(home, "experiment", "create", config, *options)
        number = re.match(r"Created experiment (\d+)\.", created)[1]
        return json.loads(run(home, "experiment", "list-trials", number, "--json"))

    yield search
    run(home, "master", "stop", "--now")
    master.communicate()


@pytest.mark.long("test_experiment_commands.py searches in every run")
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
def test_the_examples_are_searched(search, example, config, options, num_trials, expected):
    directory = EXAMPLES / example
    arguments = [part for option in options for part in ("--set", option)]
    if (example, config) in _CHECKED_BY_ANOTHER:
        arguments.append("--no_check")
    if example != "task_translation":
        arguments.insert(0, directory)
    trials = search(directory / config, *arguments)
    assert [trial["state"] for trial in trials] == ["COMPLETED"] * num_trials
    assert max(trial["best_metric"] for trial in trials) > expected


@pytest.mark.long("test_chaos.py searches by a population")
def test_a_population_of_keras_models_evolves(search):
    directory = EXAMPLES / "keras_digits"
    trials = search(
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
