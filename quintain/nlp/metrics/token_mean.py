"""Mean of what is measured at each token.

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


class TokenMean(keras.metrics.Mean, abc.ABC):
    """Mean over all tokens since the last reset, each counting the same, whatever its batch.

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
