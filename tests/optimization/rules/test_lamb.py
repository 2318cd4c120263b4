import keras
import numpy as np
import pytest
import tensorflow as tf

from quintain.optimization.rules import lamb
from quintain.optimization.schedules import lr_schedule

_DECAY = {"weight_decay_rate": 0.1, "exclude_from_weight_decay": ["_1$"]}
_RULES = {
    "plain": {},
    "decay": _DECAY,
    "decay of some, adaptation of others": {
        **_DECAY,
        "exclude_from_layer_adaptation": ["weight_0", "weight_2"],
    },
    "decay of some, adaptation of all": {**_DECAY, "exclude_from_layer_adaptation": []},
}
_DECAYS = {"plain": [0, 0, 0]}
_ADAPTS = {
    "decay": [True, False, True],
    "decay of some, adaptation of others": [False, True, False],
}


@pytest.mark.slow
@pytest.mark.parametrize("name", _RULES)
def test_every_rule_follows_its_formula(name, trained, recompute, runner):
    decays = iter(_DECAYS.get(name, [0.1, 0.0, 0.1]))
    adapts = iter(_ADAPTS.get(name, [True, True, True]))

    def update(weight, gradient, number, state):
        if not state:
            state.update(m=0.0, v=0.0, decay=next(decays), adapt=next(adapts))
        state["m"] = 0.9 * state["m"] + 0.1 * gradient
        state["v"] = 0.99 * state["v"] + 0.01 * gradient**2
        step = state["m"] / (1 - 0.9**number)
        step /= np.sqrt(state["v"] / (1 - 0.99**number)) + 1e-6
        step += state["decay"] * weight
        ratio = np.sqrt(np.sum(weight**2) / np.sum(step**2)) if state["adapt"] else 1.0
        weight -= 0.02 / number * ratio * step

    rate = lr_schedule.InverseTimeDecay(0.02, 1.0)
    ours = trained(lamb.LAMB(rate, beta_2=0.99, **_RULES[name]), 8, runner)

    for left, right in zip(ours, recompute(8, update), strict=True):
        np.testing.assert_allclose(left, right, rtol=5e-6, atol=2e-6)


def test_without_decay_it_gives_the_weights_that_keras_gives(trained):
    schedule = lr_schedule.CosineDecayWithOffset(0.01, 30)

    ours = trained(lamb.LAMB(schedule, epsilon=1e-7), 20)
    theirs = trained(keras.optimizers.Lamb(schedule, epsilon=1e-7), 20)

    for left, right in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(left, right, rtol=2e-6, atol=1e-6)


@pytest.mark.parametrize(("start", "gradient", "end"), [(0.0, 4.0, -0.5), (2.0, 0.0, 2.0)])
def test_the_trust_ratio_is_1_if_a_norm_is_0(start, gradient, end):
    weight = keras.Variable([start])

    lamb.LAMB(0.5).apply_gradients([(tf.constant([gradient]), weight)])

    np.testing.assert_allclose(weight, [end], rtol=1e-5)


def test_a_gradient_that_is_not_finite_is_not_hidden_by_the_trust_ratio():
    weight = keras.Variable([2.0, 2.0])

    lamb.LAMB(0.5).apply_gradients([(tf.constant([float("inf"), 1.0]), weight)])

    assert np.isnan(weight.numpy()).all()


def test_decay_divides_the_learning_rate(trained, fresh_gradients):
    schedule = lr_schedule.InverseTimeDecay(0.1, 0.5)

    for left, right in zip(
        trained(lamb.LAMB(0.1, decay=0.5), 3), trained(lamb.LAMB(schedule), 3), strict=True
    ):
        np.testing.assert_array_equal(left, right)


def test_sparse_gradients_with_repeated_rows_count_like_dense_ones(train_embedding):
    sparse, dense = train_embedding(lambda: lamb.LAMB(0.1, weight_decay_rate=0.1))

    np.testing.assert_allclose(sparse, dense, rtol=1e-6)


def test_layers_that_do_not_decay_are_not_adapted_unless_a_list_says_so():
    follows = lamb.LAMB(0.1, weight_decay_rate=0.1, exclude_from_weight_decay=["bias"])
    own = lamb.LAMB(
        0.1,
        weight_decay_rate=0.1,
        exclude_from_weight_decay=["bias"],
        exclude_from_layer_adaptation=["norm"],
    )

    assert not follows._do_layer_adaptation("dense/bias")
    assert own._do_layer_adaptation("dense/bias")
    assert not own._do_layer_adaptation("norm/scale")
    assert [own._do_use_weight_decay(path) for path in ("dense/bias", "norm/scale")] == [
        False,
        True,
    ]


@pytest.mark.parametrize(
    "wrong", [{"beta_1": 1.0}, {"beta_2": -0.1}, {"epsilon": -1.0}, {"weight_decay_rate": -0.1}]
)
def test_a_parameter_out_of_range_is_an_error(wrong):
    with pytest.raises(ValueError, match=next(iter(wrong))):
        lamb.LAMB(0.1, **wrong)
