import keras
import numpy as np
import pytest

from quintain.optimization.rules import adagrad
from quintain.optimization.schedules import lr_schedule


def test_it_gives_the_weights_that_keras_gives(trained, runner):
    schedule = lr_schedule.CosineDecayWithOffset(0.01, 30)

    ours = trained(adagrad.Adagrad(schedule), 20, runner)
    theirs = trained(keras.optimizers.Adagrad(schedule), 20)

    for left, right in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(left, right, rtol=1e-6, atol=1e-6)


def test_it_follows_its_formula_with_epsilon_added_to_the_root(trained, recompute):
    def update(weight, gradient, number, state):
        del number
        state["s"] = state.get("s", 0.5) + gradient**2
        weight -= 0.1 * gradient / (np.sqrt(state["s"]) + 0.25)

    ours = trained(adagrad.Adagrad(0.1, initial_accumulator_value=0.5, epsilon=0.25), 6)

    for left, right in zip(ours, recompute(6, update), strict=True):
        np.testing.assert_allclose(left, right, rtol=2e-6, atol=2e-6)


@pytest.mark.slow
@pytest.mark.parametrize("limit", [None, 1.0])
def test_sparse_gradients_with_repeated_rows_count_like_dense_ones(limit, train_embedding):
    sparse, dense = train_embedding(lambda: adagrad.Adagrad(0.1, clipnorm=limit))

    np.testing.assert_allclose(sparse, dense, rtol=1e-6)


@pytest.mark.parametrize("wrong", [{"initial_accumulator_value": -1.0}, {"epsilon": -1.0}])
def test_a_parameter_out_of_range_is_an_error(wrong):
    with pytest.raises(ValueError, match=next(iter(wrong))):
        adagrad.Adagrad(0.1, **wrong)
