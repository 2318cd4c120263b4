import json
import pathlib
import subprocess
import sys

import pytest

PROGRAM = pathlib.Path(__file__).parent / "chaos.py"


@pytest.mark.slow
@pytest.mark.e2e
def test_searches_that_are_killed_and_damaged_at_random_give_the_same_results(tmp_path):
    done = subprocess.run(
        [
            *(sys.executable, str(PROGRAM), "--trials=16", "--kills=20", "--damage=10"),
            f"--workdir={tmp_path}",
        ],
        capture_output=True,
        text=True,
        check=False,
    )
    outcome = json.loads((done.stdout.splitlines() or ["{}"])[-1])
    assert outcome.get("faults") == [], done.stdout + done.stderr
    assert outcome["killed"] >= 20
    assert sum(outcome["damaged"].values()) >= 10
