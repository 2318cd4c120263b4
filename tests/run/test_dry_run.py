import types

import pytest

from quintain import errors
from quintain.run import dry_run


def test_a_loss_that_is_not_finite_is_an_error():
    losses = iter([2.5, float("nan"), 1.0, 1.0])
    trainer = types.SimpleNamespace(
        train=lambda _: {"training_loss": next(losses)},
        train_loss=types.SimpleNamespace(name="training_loss"),
    )

    with pytest.raises(errors.TrainingDivergedError, match="became nan by step 2"):
        dry_run._time_steps(trainer)
