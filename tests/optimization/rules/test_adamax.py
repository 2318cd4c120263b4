import keras
import numpy as np
import pytest

from quintain.optimization.rules import adamax
from quintain.optimization.schedules import lr_schedule


def test_it_gives_the_weights_that_keras_gives(trained, runner):
    schedule = lr_schedule.CosineDecayWithOffset(0.01, 30)

    ours = trained(adamax.Adamax(schedule, beta_2=0.9), 20, runner)
    theirs = trained(keras.optimizers.Adamax(schedule, beta_2=0.9), 20)

    for left, right in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(left, right, rtol=1e-6, atol=1e-6)


def test_it_follows_its_formula(trained, recompute):
    def update(weight, gradient, number, state):
        state["m"] = 0.8 * state.get("m", 0.0) + 0.2 * gradient
        state["u"] = np.maximum(0.9 * state.get("u", 0.0), np.abs(gradient))
        weight -= 0.01 / (1 - 0.8**number) * state["m"] / (state["u"] + 1e-3)

    ours = trained(adamax.Adamax(0.01, beta_1=0.8, beta_2=0.9, epsilon=1e-3), 8)

    for left, right in zip(ours, recompute(8, update), strict=True):
        np.testing.assert_allclose(left, right, rtol=2e-6, atol=2e-6)


def test_sparse_gradients_with_repeated_rows_count_like_dense_ones(train_embedding):
    sparse, dense = train_embedding(lambda: adamax.Adamax(0.1))

    np.testing.assert_allclose(sparse, dense, rtol=1e-6)


@pytest.mark.parametrize("wrong", [{"beta_1": 1.0}, {"beta_2": -0.1}, {"epsilon": -1.0}])
def test_a_parameter_out_of_range_is_an_error(wrong):
    with pytest.raises(ValueError, match=next(iter(wrong))):
        adamax.Adamax(0.1, **wrong)
