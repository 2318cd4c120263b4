"""Cross entropy of tokens, or of other classes by their numbers, with label smoothing.

Shapes:
    B  examples in the batch
    L  target tokens per example, padded with `PAD_ID`
    N  predictions, such as the positions of all sequences of a batch
    V  classes, such as the size of the vocabulary
"""

from collections.abc import Callable
from typing import Final

import tensorflow as tf

from quintain.kernels import cross_entropy, selection

PAD_ID: Final = 0


@tf.autograph.experimental.do_not_convert  # It takes longer than all that it does.
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
    return smoothed_cross_entropy(logits, labels, smoothing) * weights, weights


@tf.autograph.experimental.do_not_convert
def smoothed_cross_entropy(
    logits: tf.Tensor, labels: tf.Tensor, smoothing: float = 0.0
) -> tf.Tensor:
    """Computes the cross entropy of every position without ever holding smoothed targets.

    Training steps with native kernels do it in one pass each way; TensorFlow's operations take a
    sixth of the time of `tf.nn.sparse_softmax_cross_entropy_with_logits` on CPUs.

    Args:
        logits: `[..., V]` float32, unnormalised.
        labels: `[...]` integers in `[0, V)`.
        smoothing: Probability taken from the label, in `[0, 1)`; see `padded_cross_entropy`.

    Returns:
        `[...]` float32, in nats.

    With target probabilities `on` and `off`, the cross entropy is
    `logsumexp(z) - (on - off) * z[label] - off * sum(z)`, and its gradient is `softmax(z)` less the
    targets. The softmax is kept for the gradient, and gives the normaliser as well: where `z` is
    largest, `logsumexp(z) = z - log(softmax(z))`, and the logarithm is that of at least `1 / V`.
    """
    if selection.is_native():
        int_labels = tf.cast(tf.reshape(labels, [-1]), tf.int32)  # [N]
        flat_logits = cross_entropy.flatten(logits)
        loss = cross_entropy.smoothed_cross_entropy(flat_logits, int_labels, smoothing)
        return tf.reshape(loss, tf.shape(labels))
    vocab_size = tf.cast(tf.shape(logits)[-1], tf.float32)
    on, off = 1.0 - smoothing, smoothing / tf.maximum(vocab_size - 1.0, 1.0)
    entropy = -(tf.math.xlogy(on, on) + (vocab_size - 1.0) * tf.math.xlogy(off, off))
    flat_labels = tf.reshape(labels, [-1])  # [N]

    @tf.custom_gradient
    def compute(scores: tf.Tensor) -> tuple[tf.Tensor, Callable[[tf.Tensor], tf.Tensor]]:
        chances = tf.nn.softmax(scores)  # [N, V]
        likeliest = tf.argmax(scores, axis=-1, output_type=tf.int32)  # [N]
        normaliser = _pick(scores, likeliest) - tf.math.log(_pick(chances, likeliest))
        label_scores = _pick(scores, flat_labels)
        loss = normaliser - (on - off) * label_scores - entropy
        if smoothing:
            loss -= off * tf.reduce_sum(scores, axis=-1)

        def backward(upstream: tf.Tensor) -> tf.Tensor:
            targets = tf.one_hot(flat_labels, tf.shape(scores)[-1], on, off)  # [N, V]
            return (chances - targets) * upstream[:, tf.newaxis]

        return loss, backward

    flat = tf.reshape(logits, [-1, tf.shape(logits)[-1]])  # [N, V]
    return tf.reshape(compute(flat), tf.shape(labels))


def _pick(values: tf.Tensor, places: tf.Tensor) -> tf.Tensor:
    """Returns the value `[N]` at one place of each row of `[N, V]`."""
    return tf.gather(values, places, batch_dims=1)
