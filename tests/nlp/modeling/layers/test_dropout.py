import keras
import numpy as np
import pytest
import tensorflow as tf

from quintain import errors
from quintain.nlp.modeling.layers import dropout


@pytest.mark.parametrize("rate", [0.1, 0.5, 0.003, 0.9])
def test_the_share_is_dropped_and_the_mean_is_kept(rate):
    keras.utils.set_random_seed(1)
    layer = dropout.Dropout(rate)
    outputs = layer(tf.ones([1000, 1001]), training=True).numpy()
    share = np.mean(outputs == 0)
    # Five standard deviations of a binomial distribution, and the 2 % that rates are rounded by.
    tolerance = 5 * np.sqrt(rate * (1 - rate) / outputs.size) + 0.02 * rate
    assert share == pytest.approx(rate, abs=tolerance)
    kept = np.unique(outputs[outputs != 0])
    assert kept.size == 1
    dropped = layer.num_dropped / 2 ** (8 * layer.bits_type.size)
    assert kept[0] == pytest.approx(1 / (1 - dropped), rel=1e-6)


def test_neighbours_are_dropped_independently():
    keras.utils.set_random_seed(1)
    kept = dropout.Dropout(0.5)(tf.ones([1 << 20]), training=True).numpy() != 0
    for distance in (1, 2, 3, 4, 8):
        both = np.mean(kept[:-distance] & kept[distance:])
        assert both == pytest.approx(0.25, abs=5 * np.sqrt(0.1875 / kept.size))


def test_gradients_pass_where_values_do():
    x = tf.random.stateless_normal([7, 5], [1, 2])
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = dropout.Dropout(0.4)(x, training=True)
    np.testing.assert_allclose(tape.gradient(y, x), (y / x).numpy(), rtol=1e-6)


def test_nothing_happens_without_training_or_rate():
    x = tf.random.stateless_normal([3, 4], [1, 2])
    np.testing.assert_array_equal(dropout.Dropout(0.5)(x), x)
    np.testing.assert_array_equal(dropout.Dropout(0.0)(x, training=True), x)


def test_each_call_draws_anew_and_a_seed_repeats():
    def draw():
        keras.utils.set_random_seed(3)
        layer = dropout.Dropout(0.5)
        x = tf.ones([64], tf.bfloat16)
        return [tf.cast(layer(x, training=True), tf.float32).numpy() for _ in range(2)]

    first, second = draw()
    assert (first != second).any()
    np.testing.assert_array_equal([first, second], draw())


@pytest.mark.parametrize("rate", [-0.1, 1.0, 2])
def test_a_rate_outside_its_range_is_an_error(rate):
    with pytest.raises(errors.ConfigError, match=r"expected a number in \[0, 1\)"):
        dropout.Dropout(rate)
