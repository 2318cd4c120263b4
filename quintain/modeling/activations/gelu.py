"""Gaussian error linear unit."""

import math
from collections.abc import Callable
from typing import Final

import keras
import tensorflow as tf

_TANH_SCALE: Final = math.sqrt(2.0 / math.pi)
_CUBIC: Final = 0.044715


@keras.saving.register_keras_serializable("quintain")
def gelu(x: tf.Tensor) -> tf.Tensor:
    """Gaussian error linear unit, approximated by tanh. Source: https://arxiv.org/abs/1606.08415."""
    return tf.nn.gelu(x, approximate=True)


@keras.saving.register_keras_serializable("quintain")
def approximate_gelu(x: tf.Tensor) -> tf.Tensor:
    """Multiplies each number by about the share of a standard normal distribution below it.

    Equal to `keras.activations.gelu(x, approximate=True)`, and computed in float32 whatever the
    dtype of `x`. Training keeps the derivative instead of the input, and multiplies by it on the
    way back.

    Example:
        >>> [round(float(y), 4) for y in approximate_gelu(tf.constant([-1.0, 0.0, 1.0]))]
        [-0.1588, 0.0, 0.8412]

    Source:
        Hendrycks and Gimpel, 2016, section 2 (https://arxiv.org/abs/1606.08415).
    """

    def compute(x: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        square = tf.square(x)
        below = 0.5 + 0.5 * tf.tanh(x * (_TANH_SCALE + (_TANH_SCALE * _CUBIC) * square))
        slope = 2.0 * _TANH_SCALE + (6.0 * _TANH_SCALE * _CUBIC) * square
        output = x * below
        # With t the tanh, 0.5 * (1 - t ** 2) is 2 * below * (1 - below).
        return output, below + (output - output * below) * slope

    return _apply(compute, x)


def _apply(compute: Callable[[tf.Tensor], tuple[tf.Tensor, tf.Tensor]], x: tf.Tensor) -> tf.Tensor:
    """Returns a function's value, whose gradient is its second result."""

    @tf.custom_gradient
    def apply(x: tf.Tensor) -> tuple[tf.Tensor, Callable[[tf.Tensor], tf.Tensor]]:
        value, derivative = compute(tf.cast(x, tf.float32) if x.dtype.size < 4 else x)
        rounded = tf.cast(derivative, x.dtype)
        return tf.cast(value, x.dtype), lambda upstream: upstream * rounded

    return apply(tf.convert_to_tensor(x))
