import keras
import numpy as np
import pytest
import tensorflow as tf

from quintain.optimization.rules import rmsprop
from quintain.optimization.schedules import lr_schedule

_RULES = {
    "plain": {"rho": 0.8},
    "centered": {"epsilon": 1e-3, "centered": True},
    "momentum": {"momentum": 0.9, "epsilon": 1e-6},
    "centered momentum": {"momentum": 0.9, "epsilon": 1e-3, "centered": True},
}
_EVERY_RULE = pytest.mark.parametrize("rule", _RULES.values(), ids=_RULES)


@pytest.mark.slow
@_EVERY_RULE
def test_every_rule_gives_the_weights_that_keras_gives(rule, trained, runner):
    schedule = lr_schedule.CosineDecayWithOffset(0.01, 30)

    ours = trained(rmsprop.RMSprop(schedule, **rule), 20, runner)
    theirs = trained(keras.optimizers.RMSprop(schedule, **rule), 20)

    for left, right in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(left, right, rtol=1e-6, atol=1e-6)


@_EVERY_RULE
def test_every_rule_follows_its_formula(rule, trained, recompute):
    filled = {"rho": 0.9, "momentum": 0.0, "epsilon": 1e-7, "centered": False} | rule
    rho, epsilon = filled["rho"], filled["epsilon"]

    def update(weight, gradient, number, state):
        del number
        state["v"] = rho * state.get("v", 0.0) + (1 - rho) * gradient**2
        state["a"] = rho * state.get("a", 0.0) + (1 - rho) * gradient
        spread = state["v"] - (state["a"] ** 2 if filled["centered"] else 0.0)
        change = 0.01 * gradient / np.sqrt(spread + epsilon)
        state["m"] = filled["momentum"] * state.get("m", 0.0) + change
        weight -= state["m"]

    ours = trained(rmsprop.RMSprop(0.01, **rule), 6)

    for left, right in zip(ours, recompute(6, update), strict=True):
        np.testing.assert_allclose(left, right, rtol=2e-5, atol=2e-6)


@_EVERY_RULE
def test_sparse_gradients_with_repeated_rows_count_like_dense_ones(rule, train_embedding):
    sparse, dense = train_embedding(lambda: rmsprop.RMSprop(0.1, **rule))

    np.testing.assert_allclose(sparse, dense, rtol=1e-6)


@pytest.mark.parametrize("momentum", [0.0, 0.9])
def test_the_root_of_a_centered_square_stays_a_number_when_the_gradient_is_constant(momentum):
    weight = keras.Variable([0.0] * 64)
    optimizer = rmsprop.RMSprop(1e-6, rho=0.5, centered=True, momentum=momentum)
    optimizer.build([weight])
    gradient = tf.constant(np.linspace(1000.0, 1001.0, 64), tf.float32)
    step = tf.function(lambda: optimizer.apply([gradient], [weight]))

    for _ in range(60):
        step()

    assert np.isfinite(weight.numpy()).all()


@pytest.mark.parametrize(
    "wrong", [{"rho": 1.0}, {"momentum": 1.0}, {"momentum": -0.1}, {"epsilon": -1.0}]
)
def test_a_parameter_out_of_range_is_an_error(wrong):
    with pytest.raises(ValueError, match=next(iter(wrong))):
        rmsprop.RMSprop(0.1, **wrong)
