import keras
import numpy as np
import pytest
import tensorflow as tf

from quintain.optimization.rules import sgd
from quintain.optimization.schedules import lr_schedule

_RULES = {
    "plain": {},
    "momentum": {"momentum": 0.9},
    "nesterov": {"momentum": 0.9, "nesterov": True},
}


@pytest.mark.parametrize("rule", _RULES.values(), ids=_RULES)
def test_every_rule_gives_the_weights_that_keras_gives(rule, trained):
    schedule = lr_schedule.CosineDecayWithOffset(0.01, 30)

    ours = trained(sgd.SGD(schedule, **rule), 40)
    theirs = trained(keras.optimizers.SGD(schedule, **rule), 40)

    for left, right in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(left, right, rtol=1e-6, atol=1e-6)


def test_decay_divides_the_learning_rate():
    weight = keras.Variable([0.0])
    optimizer = sgd.SGD(1.0, decay=0.5)

    for _ in range(3):
        optimizer.apply_gradients([(tf.constant([1.0]), weight)])

    np.testing.assert_allclose(weight, [-(1 + 1 / 1.5 + 1 / 2)], rtol=1e-6)


@pytest.mark.parametrize("rule", _RULES.values(), ids=_RULES)
def test_sparse_gradients_with_repeated_rows_count_like_dense_ones(rule, train_embedding):
    sparse, dense = train_embedding(lambda: sgd.SGD(0.1, **rule))

    np.testing.assert_allclose(sparse, dense, rtol=1e-6)


@pytest.mark.parametrize("momentum", [-0.1, 1.0, float("nan")])
def test_a_momentum_out_of_range_is_an_error(momentum):
    with pytest.raises(ValueError, match="momentum"):
        sgd.SGD(0.1, momentum=momentum)
