import math

import keras
import numpy as np
import pytest
import tensorflow as tf

from quintain.modeling import tf_utils
from quintain.nlp.modeling import activations

POINTS = np.linspace(-6, 6, 97).astype("float32")


def below(x):
    """The share of a standard normal distribution below `x`, in float64."""
    return np.array([0.5 * math.erfc(-float(value) / math.sqrt(2)) for value in x])


def differentiate(x, function=activations.gelu):
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = function(x)
    return y, tape.gradient(y, x)


@pytest.mark.parametrize(("dtype", "tolerance"), [("float32", 2e-6), ("float64", 1e-12)])
def test_gelu_and_its_derivative_are_the_closed_forms(dtype, tolerance):
    points = POINTS.astype(dtype)

    output, derivative = differentiate(tf.constant(points))

    density = np.exp(-np.square(points, dtype="float64") / 2) / math.sqrt(2 * math.pi)
    np.testing.assert_allclose(output, points * below(points), atol=tolerance)
    np.testing.assert_allclose(derivative, below(points) + points * density, atol=tolerance)


def approximate_by_keras(x):
    return keras.activations.gelu(x, approximate=True)


@pytest.mark.parametrize("function", [activations.gelu, activations.approximate_gelu])
@pytest.mark.parametrize("dtype", [tf.bfloat16, tf.float16])
def test_gelu_rounds_only_its_results(function, dtype):
    points = tf.cast(POINTS, dtype)

    output, derivative = differentiate(points, function)
    wide_output, wide_derivative = differentiate(tf.cast(points, tf.float32), function)

    assert output.dtype == derivative.dtype == dtype
    np.testing.assert_array_equal(output, tf.cast(wide_output, dtype))
    np.testing.assert_array_equal(derivative, tf.cast(wide_derivative, dtype))


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        (activations.gelu, keras.activations.gelu),
        (activations.approximate_gelu, approximate_by_keras),
    ],
)
def test_gelu_is_that_of_keras_and_has_a_second_derivative(ours, theirs):
    x = tf.constant(POINTS, tf.float64)
    found = []
    for function in (ours, theirs):
        with tf.GradientTape() as outer:
            outer.watch(x)
            y, first = differentiate(x, function)
        found.append((y, first, outer.gradient(first, x)))

    for mine, other in zip(*found, strict=True):
        np.testing.assert_allclose(mine, other, atol=1e-8)


def test_other_names_are_those_of_keras():
    assert activations.get("relu") is keras.activations.get("relu")
    assert activations.get("gelu") is activations.gelu
    assert activations.get_approximate("GELU") is activations.approximate_gelu
    assert activations.get_approximate("relu6") is tf_utils.get_activation("relu6")
    with pytest.raises(ValueError, match="no_such"):
        activations.get("no_such")
