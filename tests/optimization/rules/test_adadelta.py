import keras
import numpy as np
import pytest

from quintain.optimization.rules import adadelta
from quintain.optimization.schedules import lr_schedule


def test_it_gives_the_weights_that_keras_gives(trained, runner):
    schedule = lr_schedule.CosineDecayWithOffset(1.0, 30)

    ours = trained(adadelta.Adadelta(schedule), 20, runner)
    theirs = trained(keras.optimizers.Adadelta(schedule), 20)

    for left, right in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(left, right, rtol=1e-6, atol=1e-6)


def test_it_follows_its_formula(trained, recompute):
    def update(weight, gradient, number, state):
        del number
        state["a"] = 0.9 * state.get("a", 0.0) + 0.1 * gradient**2
        step = np.sqrt(state.get("d", 0.0) + 1e-3) / np.sqrt(state["a"] + 1e-3) * gradient
        state["d"] = 0.9 * state.get("d", 0.0) + 0.1 * step**2
        weight -= 0.5 * step

    ours = trained(adadelta.Adadelta(0.5, rho=0.9, epsilon=1e-3), 8)

    for left, right in zip(ours, recompute(8, update), strict=True):
        np.testing.assert_allclose(left, right, rtol=2e-6, atol=2e-6)


@pytest.mark.slow
def test_sparse_gradients_with_repeated_rows_count_like_dense_ones(train_embedding):
    sparse, dense = train_embedding(lambda: adadelta.Adadelta(1.0, epsilon=0.1))

    np.testing.assert_allclose(sparse, dense, rtol=1e-6)


@pytest.mark.parametrize("wrong", [{"rho": 1.0}, {"epsilon": -1.0}])
def test_a_parameter_out_of_range_is_an_error(wrong):
    with pytest.raises(ValueError, match=next(iter(wrong))):
        adadelta.Adadelta(0.1, **wrong)
