import keras
import numpy as np
import pytest

from quintain.optimization.rules import lion
from quintain.optimization.schedules import lr_schedule


@pytest.mark.parametrize("decay", [None, 0.1])
def test_it_gives_the_weights_that_keras_gives(decay, trained, runner):
    schedule = lr_schedule.CosineDecayWithOffset(0.01, 30)

    ours = trained(lion.Lion(schedule, weight_decay=decay), 20, runner)
    theirs = trained(keras.optimizers.Lion(schedule, weight_decay=decay), 20)

    for left, right in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(left, right, rtol=1e-6, atol=1e-6)


def test_it_follows_its_formula(trained, recompute):
    decays = iter([0.1, 0.0, 0.1])

    def update(weight, gradient, number, state):
        del number
        if not state:
            state.update(m=0.0, decay=next(decays))
        weight -= 0.01 * state["decay"] * weight
        weight -= 0.01 * np.sign(0.8 * state["m"] + 0.2 * gradient)
        state["m"] = 0.95 * state["m"] + 0.05 * gradient

    optimizer = lion.Lion(
        0.01, beta_1=0.8, beta_2=0.95, weight_decay=0.1, exclude_from_weight_decay=["_1$"]
    )

    for left, right in zip(trained(optimizer, 8), recompute(8, update), strict=True):
        np.testing.assert_allclose(left, right, rtol=1e-6, atol=1e-6)


def test_only_included_paths_decay(trained):
    ours = trained(lion.Lion(0.01, weight_decay=0.1, include_in_weight_decay=["_1$"]), 3)
    plain = trained(lion.Lion(0.01), 3)

    is_same = [np.array_equal(left, right) for left, right in zip(ours, plain, strict=True)]
    assert is_same == [True, False, True]


def test_sparse_gradients_with_repeated_rows_count_like_dense_ones(train_embedding):
    sparse, dense = train_embedding(lambda: lion.Lion(0.1, weight_decay=0.1))

    np.testing.assert_allclose(sparse, dense, rtol=1e-6)


@pytest.mark.parametrize("wrong", [{"beta_1": 1.0}, {"beta_2": -0.1}, {"weight_decay": -0.1}])
def test_a_parameter_out_of_range_is_an_error(wrong):
    with pytest.raises(ValueError, match=next(iter(wrong))):
        lion.Lion(0.1, **wrong)
