import typing

import keras
import numpy as np
import pytest
import tensorflow as tf

from quintain.modeling import tf_utils
from quintain.nlp.modeling import activations

POINTS = np.linspace(-6, 6, 97).astype("float32")


def differentiate(x, function=activations.approximate_gelu):
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = function(x)
    return y, tape.gradient(y, x)


def approximate_by_keras(x):
    return keras.activations.gelu(x, approximate=True)


@pytest.mark.parametrize("dtype", [tf.bfloat16, tf.float16])
def test_gelu_rounds_only_its_results(dtype):
    points = tf.cast(POINTS, dtype)

    output, derivative = differentiate(points)
    wide_output, wide_derivative = differentiate(tf.cast(points, tf.float32))

    assert output.dtype == derivative.dtype == dtype
    np.testing.assert_array_equal(output, tf.cast(wide_output, dtype))
    np.testing.assert_array_equal(derivative, tf.cast(wide_derivative, dtype))


def test_gelu_is_that_of_keras_and_has_a_second_derivative():
    x = tf.constant(POINTS, tf.float64)
    found = []
    for function in (activations.approximate_gelu, approximate_by_keras):
        with tf.GradientTape() as outer:
            outer.watch(x)
            y, first = differentiate(x, function)
        found.append((y, first, outer.gradient(first, x)))

    for mine, other in zip(*found, strict=True):
        np.testing.assert_allclose(mine, other, atol=1e-8)


def test_swiglu_gates_one_half_by_the_other():
    gates, values = POINTS, np.cos(POINTS)
    x = tf.constant(np.concatenate([gates, values])[np.newaxis], tf.float64)

    output, gradient = differentiate(x, activations.get("swiglu"))

    share = 1 / (1 + np.exp(-gates.astype("float64")))
    slope = share * (1 + gates * (1 - share))
    np.testing.assert_allclose(output[0], gates * share * values, rtol=1e-7)
    np.testing.assert_allclose(gradient[0], [*(slope * values), *(gates * share)], rtol=1e-6)


def test_every_name_that_a_config_may_have_is_an_activation():
    for name in typing.get_args(activations.FeedForwardName):
        assert callable(activations.get(name)), name
        assert callable(activations.get_approximate(name)), name
    assert activations.get("gelu") is keras.activations.gelu
    for name in ("hard_sigmoid", "identity", "relu6", "simple_swish", "swiglu"):
        assert activations.get_name(activations.get_approximate(name)) == name


def test_other_names_are_those_of_the_package():
    assert activations.get_approximate("GELU") is activations.approximate_gelu
    assert activations.get_approximate("relu6") is tf_utils.get_activation("relu6")
    with pytest.raises(ValueError, match="no_such"):
        activations.get_approximate("no_such")
