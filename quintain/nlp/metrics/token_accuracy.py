"""Accuracy of predicted tokens; the letters of shapes are those of `token_mean`."""

from typing import Any

import tensorflow as tf
from typing_extensions import override

from quintain.kernels import cross_entropy, selection
from quintain.nlp.metrics import token_mean


class TokenAccuracy(token_mean.TokenMean):
    """Share of tokens that a model finds the likeliest.

    As `keras.metrics.SparseCategoricalAccuracy`, but each token counts the same, however long its
    batch is, and it takes a sixth of the time: Keras first looks for negative zeros among the
    logits, which for a large vocabulary is most of its work.

    Example:
        >>> accuracy = TokenAccuracy()
        >>> accuracy.update_state(tf.constant([[1, 2]]), tf.one_hot([[1, 1]], 8))
        >>> float(accuracy.result())
        0.5
    """

    def __init__(self, name: str = "token_accuracy", dtype: Any = None) -> None:
        super().__init__(name=name, dtype=dtype)

    @override
    def measure(self, y_true: Any, y_pred: Any) -> tf.Tensor:
        """Returns 1 where the likeliest token, the first of several, is the right one, else 0."""
        if selection.is_native():
            labels = tf.cast(tf.reshape(y_true, [-1]), tf.int32)  # [B * T]
            return cross_entropy.find_right(cross_entropy.flatten(y_pred), labels)
        flat = tf.reshape(y_pred, [-1, tf.shape(y_pred)[-1]])  # [B * T, V]
        likeliest = tf.argmax(flat, axis=-1, output_type=tf.int32)  # [B * T]
        is_right = tf.equal(likeliest, tf.cast(tf.reshape(y_true, [-1]), tf.int32))  # [B * T]
        return tf.cast(is_right, tf.float32)
