"""A master with trials, here and there, that clients of every kind ask for what can't be."""

import json
import pathlib
import subprocess
import sys

import pytest

pytestmark = [pytest.mark.slow, pytest.mark.e2e]

PROGRAM = pathlib.Path(__file__).parents[1] / "programs" / "fuzz_master.py"


@pytest.mark.long(
    "Fuzz at length: `tests/server/test_every_route.py` asks the same of each address"
)
def test_nothing_that_a_client_says_disturbs_others_or_tells_it_their_secrets():
    done = subprocess.run(
        [sys.executable, PROGRAM, "--requests=600", "--seed=1"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["problems"] == []
    assert found["state"] == "COMPLETED"
    # What is asked has to reach what answers, or nothing was tried.
    for kind, least in (("trial: 400", 20), ("agent: 400", 10), ("ended: 410", 5)):
        assert found["counts"][kind] >= least, found["counts"]
