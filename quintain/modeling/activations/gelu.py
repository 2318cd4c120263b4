"""Gaussian error linear unit."""

import keras
import tensorflow as tf


@keras.saving.register_keras_serializable("quintain")
def gelu(x: tf.Tensor) -> tf.Tensor:
    """Gaussian error linear unit, approximated by tanh. Source: https://arxiv.org/abs/1606.08415."""
    return tf.nn.gelu(x, approximate=True)
