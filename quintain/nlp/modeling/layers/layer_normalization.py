"""Layer normalisation in float32, with a gradient of few operations.

Shapes:
    N  vectors of all examples and positions
    D  their width, which is normalised
"""

from collections.abc import Callable
from typing import Any

import keras
import tensorflow as tf

from quintain.kernels import residual_norm
from quintain.nlp.modeling.layers import dropout


class LayerNormalization(keras.layers.Layer):
    """Normalises the last dimension to mean 0 and variance 1, then scales and shifts it.

    Computes in float32 whatever the precision policy, and returns the policy's compute type. Equal
    to `keras.layers.LayerNormalization`, with a backward pass of a third of the operations.

    Source:
        Ba et al., 2016 (https://arxiv.org/abs/1607.06450).
    """

    def __init__(self, epsilon: float = 1e-6, **kwargs: Any) -> None:
        super().__init__(autocast=False, **kwargs)
        self.epsilon = epsilon

    def build(self, input_shape: Any) -> None:
        """Creates scale and shift, `[D]` each."""
        width = input_shape[-1]
        self.gamma = self.add_weight(shape=(width,), initializer="ones", name="gamma")
        self.beta = self.add_weight(shape=(width,), initializer="zeros", name="beta")

    def call(self, inputs: tf.Tensor) -> tf.Tensor:
        """Normalises `[..., D]`."""
        return self.normalise(inputs)

    def normalise(self, inputs: tf.Tensor, dtype: Any = None) -> tf.Tensor:
        """Normalises `[..., D]`; to a type of its own, or None for the policy's compute type."""
        dtype = tf.as_dtype(dtype or self.compute_dtype)
        gamma, beta = self.read_weights()
        if dropout.can_be_native(inputs) and dtype in (tf.float32, tf.bfloat16):
            return residual_norm.normalise(inputs, gamma, beta, epsilon=self.epsilon, dtype=dtype)
        return normalise_plainly(inputs, gamma, beta, epsilon=self.epsilon, dtype=dtype)

    def read_weights(self) -> tuple[tf.Tensor, tf.Tensor]:
        """Returns scale and shift, `[D]` float32 each."""
        gamma, beta = (tf.convert_to_tensor(weight) for weight in (self.gamma, self.beta))
        return tf.cast(gamma, tf.float32), tf.cast(beta, tf.float32)


def normalise_plainly(
    inputs: tf.Tensor, gamma: tf.Tensor, beta: tf.Tensor, *, epsilon: float, dtype: tf.DType
) -> tf.Tensor:
    """Normalises `[..., D]` by TensorFlow's operations; arguments as for `residual_norm`."""
    flat = tf.reshape(tf.cast(inputs, tf.float32), [-1, inputs.shape[-1]])  # [N, D]
    outputs = tf.cast(_normalise(flat, gamma, beta, epsilon), dtype)
    return tf.reshape(outputs, tf.shape(inputs))


def standardise(inputs: tf.Tensor, epsilon: float) -> tuple[tf.Tensor, tf.Tensor]:
    """Shifts and scales each row of `[N, D]` to mean 0 and variance 1.

    Returns:
        The rows, and what each was multiplied by, `[N, 1]`.
    """
    centred = inputs - tf.reduce_mean(inputs, axis=-1, keepdims=True)  # [N, D]
    variance = tf.reduce_mean(tf.square(centred), axis=-1, keepdims=True)  # [N, 1]
    scale = tf.math.rsqrt(variance + epsilon)
    return centred * scale, scale


def _normalise(inputs: tf.Tensor, gamma: tf.Tensor, beta: tf.Tensor, epsilon: float) -> tf.Tensor:
    """Normalises, scales and shifts the rows of `[N, D]` float32.

    Sums over rows are matrix products with ones, which are faster on CPUs than reductions.
    """

    @tf.custom_gradient
    def compute(
        x: tf.Tensor, gamma: tf.Tensor, beta: tf.Tensor
    ) -> tuple[tf.Tensor, Callable[[tf.Tensor], tuple[tf.Tensor, ...]]]:
        normalised, scale = standardise(x, epsilon)

        def backward(upstream: tf.Tensor) -> tuple[tf.Tensor, ...]:
            ones = tf.ones([1, tf.shape(upstream)[0]], upstream.dtype)  # [1, N]
            product = upstream * normalised
            scaled = upstream * gamma
            mean = tf.reduce_mean(scaled, axis=-1, keepdims=True)  # [N, 1]
            # The mean of scaled * normalised over the row.
            projection = tf.linalg.matvec(product, gamma)[:, tf.newaxis] / gamma.shape[0]  # [N, 1]
            return (
                scale * (scaled - mean - normalised * projection),
                tf.squeeze(tf.matmul(ones, product), 0),  # [D]
                tf.squeeze(tf.matmul(ones, upstream), 0),  # [D]
            )

        return normalised * gamma + beta, backward

    return compute(inputs, gamma, beta)
