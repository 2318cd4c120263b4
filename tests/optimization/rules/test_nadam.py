import keras
import numpy as np
import pytest

from quintain.optimization.rules import nadam
from quintain.optimization.schedules import lr_schedule


@pytest.mark.slow
def test_it_gives_the_weights_that_keras_gives(trained, runner):
    schedule = lr_schedule.CosineDecayWithOffset(0.01, 30)

    ours = trained(nadam.Nadam(schedule), 20, runner)
    theirs = trained(keras.optimizers.Nadam(schedule), 20)

    for left, right in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(left, right, rtol=1e-6, atol=1e-6)


def test_it_follows_its_formula(trained, recompute):
    def compute_share(number):
        return 0.8 * (1 - 0.5 * 0.96**number)

    def update(weight, gradient, number, state):
        now, following = compute_share(number), compute_share(number + 1)
        product = np.prod([compute_share(index) for index in range(1, number + 1)])
        state["m"] = 0.8 * state.get("m", 0.0) + 0.2 * gradient
        state["v"] = 0.9 * state.get("v", 0.0) + 0.1 * gradient**2
        mean = following * state["m"] / (1 - product * following)
        mean += (1 - now) * gradient / (1 - product)
        weight -= 0.01 * mean / (np.sqrt(state["v"] / (1 - 0.9**number)) + 1e-3)

    ours = trained(nadam.Nadam(0.01, beta_1=0.8, beta_2=0.9, epsilon=1e-3), 8)

    for left, right in zip(ours, recompute(8, update), strict=True):
        np.testing.assert_allclose(left, right, rtol=3e-6, atol=3e-6)


@pytest.mark.slow
def test_sparse_gradients_with_repeated_rows_count_like_dense_ones(train_embedding):
    sparse, dense = train_embedding(lambda: nadam.Nadam(0.1))

    np.testing.assert_allclose(sparse, dense, rtol=1e-6)


@pytest.mark.parametrize("wrong", [{"beta_1": 1.0}, {"beta_2": -0.1}, {"epsilon": -1.0}])
def test_a_parameter_out_of_range_is_an_error(wrong):
    with pytest.raises(ValueError, match=next(iter(wrong))):
        nadam.Nadam(0.1, **wrong)
