"""Cross entropy of padded token sequences, with label smoothing.

Shapes:
    B  examples in the batch
    L  target tokens per example, padded with `PAD_ID`
    V  vocabulary size
"""

from collections.abc import Callable
from typing import Final

import tensorflow as tf

PAD_ID: Final = 0


def padded_cross_entropy(
    logits: tf.Tensor, labels: tf.Tensor, *, smoothing: float
) -> tuple[tf.Tensor, tf.Tensor]:
    """Computes the cross entropy of every target token.

    The smoothed target gives `1 - smoothing` to the label and spreads the rest evenly over the
    other tokens. Its entropy is subtracted, so that a perfect prediction scores 0.

    Args:
        logits: `[B, L, V]` float32, unnormalised.
        labels: `[B, L]` integer token ids; `PAD_ID` marks positions to ignore.
        smoothing: Probability taken from the label, in `[0, 1)`.

    Returns:
        `(loss, weights)`, both `[B, L]` float32. `loss` is in nats and 0 at padding; `weights` is 1
        at tokens and 0 at padding. The mean is `divide_no_nan(sum(loss), sum(weights))`.

    Raises:
        ValueError: If `smoothing` is outside `[0, 1)`.

    Source:
        Vaswani et al., 2017, section 5.4 (https://arxiv.org/abs/1706.03762).
    """
    if not 0.0 <= smoothing < 1.0:
        raise ValueError(f"`0 <= smoothing < 1` must hold, but got {smoothing=}.")
    weights = tf.cast(tf.not_equal(labels, PAD_ID), tf.float32)
    return _smoothed_cross_entropy(logits, labels, smoothing) * weights, weights


def _smoothed_cross_entropy(logits: tf.Tensor, labels: tf.Tensor, smoothing: float) -> tf.Tensor:
    """Computes the loss of every position without ever holding the `[B, L, V]` smoothed targets.

    With target probabilities `on` and `off`, the cross entropy is
    `logsumexp(z) - (on - off) * z[label] - off * sum(z)`, and its gradient is `softmax(z)` less the
    targets.
    """
    vocab_size = tf.cast(tf.shape(logits)[-1], tf.float32)
    on, off = 1.0 - smoothing, smoothing / (vocab_size - 1.0)
    entropy = -(tf.math.xlogy(on, on) + (vocab_size - 1.0) * tf.math.xlogy(off, off))

    @tf.custom_gradient
    def compute(scores: tf.Tensor) -> tuple[tf.Tensor, Callable[[tf.Tensor], tf.Tensor]]:
        normaliser = tf.reduce_logsumexp(scores, axis=-1, keepdims=True)  # [B, L, 1]
        label_scores = tf.gather(scores, labels, batch_dims=2)  # [B, L]
        loss = tf.squeeze(normaliser, -1) - (on - off) * label_scores - entropy
        if smoothing:
            loss -= off * tf.reduce_sum(scores, axis=-1)

        def backward(upstream: tf.Tensor) -> tf.Tensor:
            flat = tf.reshape(tf.exp(scores - normaliser) - off, [-1, tf.shape(scores)[-1]])
            rows = tf.range(tf.size(labels, out_type=labels.dtype), dtype=labels.dtype)
            places = tf.stack([rows, tf.reshape(labels, [-1])], axis=1)
            taken = tf.fill([tf.size(labels)], off - on)
            gradient = tf.tensor_scatter_nd_add(flat, places, taken)
            return tf.reshape(gradient, tf.shape(scores)) * upstream[..., tf.newaxis]

        return loss, backward

    return compute(logits)
