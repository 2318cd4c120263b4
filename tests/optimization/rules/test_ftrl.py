import keras
import numpy as np
import pytest
import tensorflow as tf

from quintain.optimization.rules import ftrl
from quintain.optimization.schedules import lr_schedule

_RULES = {
    "plain": {},
    "penalties": {
        "l1_regularization_strength": 0.1,
        "l2_regularization_strength": 0.2,
        "l2_shrinkage_regularization_strength": 0.3,
        "beta": 0.4,
    },
    "power": {"learning_rate_power": -0.7, "initial_accumulator_value": 1.0},
}
_EVERY_RULE = pytest.mark.parametrize("rule", _RULES.values(), ids=_RULES)


@_EVERY_RULE
def test_every_rule_gives_the_weights_that_keras_gives(rule, trained, runner):
    schedule = lr_schedule.InverseTimeDecay(0.1, 0.1)

    ours = trained(ftrl.Ftrl(schedule, **rule), 6, runner)
    theirs = trained(keras.optimizers.Ftrl(schedule, **rule), 6)

    for left, right in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(left, right, rtol=2e-5, atol=2e-6)


@_EVERY_RULE
def test_every_rule_follows_its_formula(rule, trained, recompute):
    filled = dict.fromkeys(_RULES["penalties"], 0.0)
    filled |= {"learning_rate_power": -0.5, "initial_accumulator_value": 0.1} | rule
    l1, l2, shrinkage, beta = (filled[name] for name in _RULES["penalties"])
    power, rate = -filled["learning_rate_power"], 0.1

    def update(weight, gradient, number, state):
        del number
        former = state.get("n", filled["initial_accumulator_value"])
        state["n"] = former + gradient**2
        change = (state["n"] ** power - former**power) / rate * weight
        state["z"] = state.get("z", 0.0) + gradient + 2 * shrinkage * weight - change
        divisor = state["n"] ** power / rate + 2 * (l2 + beta / (2 * rate))
        weight[...] = (np.clip(state["z"], -l1, l1) - state["z"]) / divisor

    ours = trained(ftrl.Ftrl(rate, **rule), 6)

    for left, right in zip(ours, recompute(6, update), strict=True):
        np.testing.assert_allclose(left, right, rtol=2e-5, atol=2e-6)


def test_an_update_with_a_learning_rate_of_0_changes_nothing(runner):
    weight = keras.Variable([2.0])
    optimizer = ftrl.Ftrl(lr_schedule.PiecewiseConstantDecayWithOffset([0], [0.0, 0.1]))
    optimizer.build([weight])
    step = runner(lambda: optimizer.apply([tf.constant([1.0])], [weight]))

    step()
    after_first = weight.numpy()
    step()

    assert after_first.tolist() == [2.0]
    assert np.isfinite(weight.numpy()).all()
    assert weight.numpy() < 2.0


def test_sparse_gradients_with_repeated_rows_count_like_dense_ones(train_embedding):
    sparse, dense = train_embedding(lambda: ftrl.Ftrl(0.1))

    np.testing.assert_allclose(sparse, dense, rtol=1e-6)


@pytest.mark.parametrize(
    "wrong",
    [
        {"learning_rate_power": 0.5},
        {"initial_accumulator_value": -1.0},
        {"l1_regularization_strength": -1.0},
        {"beta": -1.0},
    ],
)
def test_a_parameter_out_of_range_is_an_error(wrong):
    with pytest.raises(ValueError, match=next(iter(wrong))):
        ftrl.Ftrl(0.1, **wrong)
