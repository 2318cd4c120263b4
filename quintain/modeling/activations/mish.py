"""Mish activation."""

import keras
import tensorflow as tf


@keras.saving.register_keras_serializable("quintain")
def mish(x: tf.Tensor) -> tf.Tensor:
    """`x * tanh(softplus(x))`. Source: https://arxiv.org/abs/1908.08681."""
    x = tf.convert_to_tensor(x)
    return x * tf.math.tanh(tf.math.softplus(x))
