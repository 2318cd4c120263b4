"""Rectified linear units with a bound."""

import keras
import tensorflow as tf


@keras.saving.register_keras_serializable("quintain")
def relu6(features: tf.Tensor) -> tf.Tensor:
    """`min(max(x, 0), 6)`."""
    return tf.nn.relu6(tf.convert_to_tensor(features))
