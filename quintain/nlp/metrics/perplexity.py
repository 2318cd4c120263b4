"""Perplexity of predicted tokens."""

from typing import Any

import tensorflow as tf
from typing_extensions import override

from quintain.nlp.metrics import token_mean
from quintain.nlp.modeling.losses import padded_cross_entropy


class Perplexity(token_mean.TokenMean):
    """Perplexity: `exp` of the mean cross entropy of a token.

    The cross entropy is that of the bare labels, in nats, whatever label smoothing the training
    loss has, so that runs with different smoothing can be compared. The mean is taken over all
    tokens since the last reset, each token counting the same, whatever the batch or the replica it
    came in; it is not a mean of means, and differs a little from `exp` of a loss without smoothing
    that was averaged batch by batch. Perplexities of different vocabularies can't be compared.

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
        return padded_cross_entropy.smoothed_cross_entropy(tf.cast(y_pred, tf.float32), y_true)

    @override
    def result(self) -> tf.Tensor:
        """Returns the perplexity, at least 1; 1 if there were no tokens."""
        return tf.exp(super().result())
