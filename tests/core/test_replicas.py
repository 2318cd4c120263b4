"""Two replicas do what one does with the same global batch, whatever the optimizer."""

import pytest


@pytest.mark.long("test_every_optimizer.py shows it")
@pytest.mark.slow
def test_two_replicas_do_what_one_does_with_every_optimizer(run_program):
    """With clipping, accumulation of gradients and averaging of weights at once."""
    results = run_program("train_with_every_optimizer.py")

    assert {"sgd", "adam", "adamw", "clipnorm", "clipvalue"} <= set(results)
    for name, (error, change) in results.items():
        assert error < 2e-6, (name, error)
        assert change > 1e-5, (name, change)
