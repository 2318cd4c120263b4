import json
import pathlib
import subprocess
import sys

import pytest

from quintain.testing import postgres_server

PROGRAM = pathlib.Path(__file__).parent / "chaos.py"


@pytest.mark.slow
@pytest.mark.e2e
def test_a_cluster_that_is_killed_at_random_gives_the_results_of_one_machine(tmp_path, is_long):
    short = ["--searches", "pbt", "--population=2", "--node_timeout=8"]
    options, kills = ([], 50) if is_long else (short, 3)
    stores = ["--postgresql", "--s3"] if postgres_server.find_programs() else ["--s3"]

    done = subprocess.run(
        [
            *(sys.executable, str(PROGRAM), "--cluster", *stores, *options),
            *(f"--kills={kills}", f"--workdir={tmp_path}"),
        ],
        capture_output=True,
        text=True,
        check=False,
    )
    outcome = json.loads((done.stdout.splitlines() or ["{}"])[-1])
    assert outcome.get("faults") == [], done.stdout + done.stderr
    assert outcome["killed"] >= kills - 1


@pytest.mark.slow
@pytest.mark.e2e
def test_searches_that_are_killed_and_damaged_at_random_give_the_same_results(tmp_path, is_long):
    trials, population, kills, damages = (30, 8, 50, 20) if is_long else (8, 4, 8, 6)

    done = subprocess.run(
        [
            *(sys.executable, str(PROGRAM), f"--trials={trials}", f"--population={population}"),
            *(f"--kills={kills}", f"--damage={damages}", f"--workdir={tmp_path}"),
        ],
        capture_output=True,
        text=True,
        check=False,
    )
    outcome = json.loads((done.stdout.splitlines() or ["{}"])[-1])
    assert outcome.get("faults") == [], done.stdout + done.stderr
    assert outcome["killed"] >= kills
    assert sum(outcome["damaged"].values()) >= damages
