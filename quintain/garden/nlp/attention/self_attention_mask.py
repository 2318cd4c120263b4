"""Self-attention masks.

Shapes:
    B  examples in the batch
    Q  positions that attend
    K  positions that are attended to
"""

from typing import Any

import keras
import tensorflow as tf
from typing_extensions import override


def get_mask(inputs: tf.Tensor, to_mask: tf.Tensor, dtype: Any = None) -> tf.Tensor:
    """Returns a mask by which all positions attend to those that count.

    Args:
        inputs: `[B, Q, ...]`: what attends.
        to_mask: `[B, K]`: 1 for positions that count, 0 for padding.
        dtype: Type of the mask; None for that of `inputs`.

    Returns:
        `[B, Q, K]`.
    """
    mask = tf.cast(to_mask, inputs.dtype if dtype is None else dtype)[:, tf.newaxis]
    shape = tf.shape(inputs)
    return tf.broadcast_to(mask, [shape[0], shape[1], tf.shape(to_mask)[1]])


@keras.saving.register_keras_serializable(package="Text")
class SelfAttentionMask(keras.layers.Layer):
    """Turns a mask of positions into one of attention.

    Example:
        >>> SelfAttentionMask()(tf.zeros([1, 2, 4]), tf.constant([[1, 0]])).numpy().tolist()
        [[[1.0, 0.0], [1.0, 0.0]]]
    """

    @override
    def call(self, inputs: Any, to_mask: tf.Tensor | None = None) -> tf.Tensor:
        """Returns `get_mask(inputs, to_mask)`; both may also be given as a list."""
        if isinstance(inputs, list | tuple) and to_mask is None:
            inputs, to_mask = inputs
        return get_mask(inputs, to_mask)
