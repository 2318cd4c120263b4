"""The last batch of an evaluation may be too small for all replicas."""

import pytest


@pytest.mark.slow
def test_a_replica_without_examples_adds_nothing_to_the_loss(run_program):
    # Means of the batches of a replica: of 4 examples on one, of 2 on two, and of the last.
    one, two = run_program("uneven_evaluation.py")

    assert one == (3.5 + 31.5 + 64.0) / 3
    assert round(two, 4) == (0.5 + 6.5 + 20.5 + 42.5 + 64.0) / 5
