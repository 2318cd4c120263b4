import itertools

import keras
import numpy as np
import pytest
import tensorflow as tf

from quintain.optimization.rules import lars
from quintain.optimization.schedules import lr_schedule

_RULES = list(itertools.product([True, False], [False, True], [0.9, 0.0]))
_EVERY_RULE = pytest.mark.parametrize(("classic", "nesterov", "momentum"), _RULES)


@_EVERY_RULE
def test_every_rule_follows_its_formula(classic, nesterov, momentum, trained, recompute):
    decays, adapts = iter([0.1, 0.0, 0.1]), iter([True, False, True])

    def compute_ratio(weight, step, adapt):
        return 0.01 * np.sqrt(np.sum(weight**2) / np.sum(step**2)) if adapt else 1.0

    def update(weight, gradient, number, state):
        if not state:
            state.update(m=0.0, decay=next(decays), adapt=next(adapts))
        rate = 0.02 / number
        gradient = gradient + state["decay"] * weight
        if classic:
            change = rate * compute_ratio(weight, gradient, state["adapt"]) * gradient
            state["m"] = momentum * state["m"] + change
            weight -= momentum * state["m"] + change if nesterov else state["m"]
        else:
            state["m"] = momentum * state["m"] + gradient
            step = momentum * state["m"] + gradient if nesterov else state["m"]
            weight -= rate * compute_ratio(weight, step, state["adapt"]) * step

    optimizer = lars.LARS(
        lr_schedule.InverseTimeDecay(0.02, 1.0),
        momentum=momentum,
        eeta=0.01,
        nesterov=nesterov,
        classic_momentum=classic,
        weight_decay_rate=0.1,
        exclude_from_weight_decay=["_1$"],
    )
    ours = trained(optimizer, 8)

    for left, right in zip(ours, recompute(8, update), strict=True):
        np.testing.assert_allclose(left, right, rtol=5e-6, atol=2e-6)


@pytest.mark.parametrize("classic", [True, False])
@pytest.mark.parametrize(("start", "gradient", "end"), [(0.0, 4.0, -2.0), (2.0, 0.0, 2.0)])
def test_the_trust_ratio_is_1_if_a_norm_is_0(classic, start, gradient, end):
    weight = keras.Variable([start])
    optimizer = lars.LARS(0.5, classic_momentum=classic)

    optimizer.apply_gradients([(tf.constant([gradient]), weight)])

    np.testing.assert_allclose(weight, [end], rtol=1e-6)


@pytest.mark.parametrize("classic", [True, False])
def test_sparse_gradients_with_repeated_rows_count_like_dense_ones(classic, train_embedding):
    sparse, dense = train_embedding(
        lambda: lars.LARS(0.1, classic_momentum=classic, weight_decay_rate=0.1)
    )

    np.testing.assert_allclose(sparse, dense, rtol=1e-6)


@pytest.mark.parametrize(
    "wrong",
    [{"momentum": 1.0}, {"eeta": 0.0}, {"weight_decay_rate": -0.1}, {"decay": -0.1}],
)
def test_a_parameter_out_of_range_is_an_error(wrong):
    with pytest.raises(ValueError, match=next(iter(wrong))):
        lars.LARS(0.1, **wrong)
