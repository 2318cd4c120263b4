"""Metrics of predicted tokens.

Each token counts the same, whatever its batch or its replica: results are no means of means.

Shapes:
    B  sentences in the batch
    T  tokens per sentence
    V  vocabulary size
"""

import abc
from typing import Any

import keras
import tensorflow as tf
from typing_extensions import override

from quintain.kernels import cross_entropy, selection
from quintain.modeling import token_losses


class TokenMean(keras.metrics.Mean, abc.ABC):
    """Mean over all tokens since the last reset.

    `keras.metrics.Mean` takes the mean of each sentence first, so that a token of a short batch
    would count more.
    """

    @override
    def update_state(self, y_true: Any, y_pred: Any, sample_weight: Any = None) -> None:
        """Adds tokens.

        Args:
            y_true: `[B, T]` or `[B]` integer, the right tokens.
            y_pred: `[B, T, V]` or `[B, V]` logits, computed from the right tokens before each.
            sample_weight: Shaped as `y_true`, 0 (or false) for positions that do not count, such as
                padding; None counts all.
        """
        values = tf.reshape(self.measure(y_true, y_pred), [-1])  # [B * T]
        weights = None if sample_weight is None else tf.reshape(sample_weight, [-1])  # [B * T]
        super().update_state(values, sample_weight=weights)

    @abc.abstractmethod
    def measure(self, y_true: Any, y_pred: Any) -> tf.Tensor:
        """Returns what is measured at each token, of as many numbers as `y_true`, float32."""


class TokenAccuracy(TokenMean):
    """Share of tokens that a model finds the likeliest.

    As `keras.metrics.SparseCategoricalAccuracy`, but in a sixth of the time: Keras first looks for
    negative zeros among the logits, which for a large vocabulary is most of its work.

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
        labels = tf.cast(tf.reshape(y_true, [-1]), tf.int32)  # [B * T]
        if selection.is_native():
            return cross_entropy.find_right(cross_entropy.flatten(y_pred), labels)
        flat = tf.reshape(y_pred, [-1, tf.shape(y_pred)[-1]])  # [B * T, V]
        likeliest = tf.argmax(flat, axis=-1, output_type=tf.int32)  # [B * T]
        return tf.cast(tf.equal(likeliest, labels), tf.float32)


class Perplexity(TokenMean):
    """Perplexity: `exp` of the mean cross entropy of a token.

    The cross entropy is that of the bare labels, in nats, whatever label smoothing the training
    loss has, so that runs with different smoothing can be compared. Perplexities of different
    vocabularies can't be.

    Example:
        >>> perplexity = Perplexity()
        >>> perplexity.update_state(tf.constant([[1, 2]]), tf.zeros([1, 2, 8]))
        >>> round(float(perplexity.result()), 4)  # All 8 tokens are equally likely.
        8.0
    """

    def __init__(self, name: str = "perplexity", dtype: Any = None) -> None:
        super().__init__(name=name, dtype=dtype)

    @override
    def measure(self, y_true: Any, y_pred: Any) -> tf.Tensor:
        """Returns the cross entropy of each token, in nats."""
        return token_losses.smoothed_cross_entropy(tf.cast(y_pred, tf.float32), y_true)

    @override
    def result(self) -> tf.Tensor:
        """Returns the perplexity, at least 1; 1 if there were no tokens."""
        return tf.exp(super().result())
