"""Swish activations, and the identity."""

import keras
import tensorflow as tf


@keras.saving.register_keras_serializable("quintain")
def simple_swish(features: tf.Tensor) -> tf.Tensor:
    """`x * sigmoid(x)`. Source: https://arxiv.org/abs/1710.05941."""
    features = tf.convert_to_tensor(features)
    return features * tf.nn.sigmoid(features)


@keras.saving.register_keras_serializable("quintain")
def hard_swish(features: tf.Tensor) -> tf.Tensor:
    """`x * relu6(x + 3) / 6`. Source: https://arxiv.org/abs/1905.02244."""
    features = tf.convert_to_tensor(features)
    return features * tf.nn.relu6(features + 3.0) / 6.0


@keras.saving.register_keras_serializable("quintain")
def identity(features: tf.Tensor) -> tf.Tensor:
    """`x`."""
    return tf.identity(features)
