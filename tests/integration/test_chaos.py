import json
import pathlib
import subprocess
import sys

import pytest

from quintain.testing import object_server, postgres_server

PROGRAM = pathlib.Path(__file__).parent / "chaos.py"


@pytest.mark.long("Kills on PostgreSQL, Ray and S3 together; each is killed alone in every run")
@pytest.mark.slow
@pytest.mark.e2e
def test_a_cluster_that_is_killed_at_random_gives_the_results_of_one_machine(tmp_path, is_long):
    # With this seed the object store, the master, and a node are killed.
    short = ["--searches", "pbt", "--population=2", "--nodes=2", "--node_timeout=8"]
    short += ["--seed=384"]
    options, kills = ([], 50) if is_long else (short, 3)
    stores = ["--postgresql"] if postgres_server.find_programs() else []
    stores += ["--s3"] if object_server.find_program() else []

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
    assert outcome["kinds"].get("objects", 0) >= ("--s3" in stores)


@pytest.mark.long("Kills at random moments; single kills of each kind are tried in every run")
@pytest.mark.slow
@pytest.mark.e2e
def test_searches_that_are_killed_and_damaged_at_random_give_the_same_results(tmp_path, is_long):
    short = ["--searches", "pbt", "--population=3"]
    options, kills, damages = ([], 50, 20) if is_long else (short, 4, 5)

    done = subprocess.run(
        [
            *(sys.executable, str(PROGRAM), *options),
            *(f"--kills={kills}", f"--damage={damages}", f"--workdir={tmp_path}"),
        ],
        capture_output=True,
        text=True,
        check=False,
    )
    outcome = json.loads((done.stdout.splitlines() or ["{}"])[-1])
    assert outcome.get("faults") == [], done.stdout + done.stderr
    assert outcome["killed"] >= kills
    assert outcome["kinds"].keys() == {"master", "other"}
    assert sum(outcome["damaged"].values()) >= damages
