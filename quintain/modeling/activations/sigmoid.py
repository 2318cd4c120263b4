"""Hard sigmoid: a sigmoid of straight lines."""

import keras
import tensorflow as tf


@keras.saving.register_keras_serializable("quintain")
def hard_sigmoid(features: tf.Tensor) -> tf.Tensor:
    """`relu6(x + 3) * 0.16667`: about a sixth, as trained models have it.

    Source: https://arxiv.org/abs/1905.02244.
    """
    features = tf.convert_to_tensor(features)
    return tf.nn.relu6(features + 3.0) * 0.16667
