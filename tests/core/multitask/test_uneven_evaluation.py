"""The last batch of an evaluation may be too small for all replicas."""

import json
import pathlib
import subprocess
import sys

PROGRAM = pathlib.Path(__file__).parents[2] / "programs" / "uneven_evaluation.py"


def test_a_replica_without_examples_adds_nothing_to_the_loss():
    done = subprocess.run(
        [sys.executable, str(PROGRAM)], capture_output=True, text=True, check=True, timeout=300
    )

    # Means of the batches of a replica: of 4 examples on one, of 2 on two, and of the last.
    one, two = json.loads(done.stdout.splitlines()[-1])
    assert one == (3.5 + 31.5 + 64.0) / 3
    assert round(two, 4) == (0.5 + 6.5 + 20.5 + 42.5 + 64.0) / 5
