"""Cross entropy of integer labels, averaged by weights."""

import keras
import tensorflow as tf


def loss(
    labels: tf.Tensor,
    predictions: tf.Tensor,
    weights: tf.Tensor | None = None,
    from_logits: bool = False,
) -> tf.Tensor:
    """Computes the weighted mean cross entropy of a batch, in nats.

    Args:
        labels: `[...]` or `[..., 1]` integers.
        predictions: `[..., V]`, probabilities.
        weights: Shaped as `labels` without a last dimension of 1; None weighs all alike.
        from_logits: Whether `predictions` are logits instead.

    Returns:
        Scalar; 0 if all weights are.

    Raises:
        RuntimeError: If the ranks do not fit together.

    Example:
        >>> labels = tf.constant([0, 1])
        >>> predictions = tf.constant([[0.5, 0.5], [0.0, 1.0]])
        >>> round(float(loss(labels, predictions, weights=tf.constant([1.0, 0.0]))), 4)
        0.6931
    """
    labels = tf.cast(labels, tf.int32)
    predictions = tf.convert_to_tensor(predictions)
    if labels.shape.rank == predictions.shape.rank:
        labels = tf.squeeze(labels, [-1])
    if labels.shape.rank != predictions.shape.rank - 1:
        raise RuntimeError(
            f"labels: got shape {labels.shape} for predictions of shape {predictions.shape}, "
            "expected one dimension less."
        )
    if weights is not None:
        weights = tf.cast(weights, predictions.dtype)
        if weights.shape.rank != labels.shape.rank:
            raise RuntimeError(
                f"weights: got shape {weights.shape}, expected that of labels, {labels.shape}."
            )
    losses = keras.losses.sparse_categorical_crossentropy(
        labels, predictions, from_logits=from_logits
    )
    if weights is None:
        return tf.reduce_mean(losses)
    return tf.math.divide_no_nan(tf.reduce_sum(losses * weights), tf.reduce_sum(weights))


weighted_sparse_categorical_crossentropy_loss = loss
"""The name by which the package of losses offers it."""
