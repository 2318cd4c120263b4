"""Scores of attention to its weights, some of them dropped, in one pass.

Shapes:
    B  examples
    H  heads
    Q  queries
    K  keys
"""

from collections.abc import Callable

import tensorflow as tf

from quintain.kernels import dropout, library


def weigh(
    scores: tf.Tensor, bias: tf.Tensor | None, *, scale: float, draw: dropout.Draw | None
) -> tf.Tensor:
    """Computes `dropout(softmax(scores * scale + bias))`, in float32 but for the results.

    The way back keeps the weights before the dropout, in the place of the scores, and draws the
    dropout's bits again.

    Args:
        scores: `[B, H, Q, K]` float32 or bfloat16; nothing else may need them.
        bias: Of the same type and broadcast to the scores; None for nothing. It has no gradient.
        scale: What scores are multiplied by.
        draw: What is dropped; None for nothing.

    Returns:
        `[B, H, Q, K]`.
    """
    operations = library.get()
    is_dropped = draw is not None
    arguments = (draw or dropout.Draw()).to_arguments(scores.dtype)
    shifts = tf.zeros([0], scores.dtype) if bias is None else tf.stop_gradient(bias)

    @tf.custom_gradient
    def compute(scores: tf.Tensor) -> tuple[tf.Tensor, Callable[[tf.Tensor], tf.Tensor]]:
        found = operations.quintain_attention_weights(
            scores=scores, bias=shifts, score_scale=scale, **arguments
        )

        def backward(upstream: tf.Tensor) -> tf.Tensor:
            return operations.quintain_attention_weights_gradient(
                weights=found.weights, upstream=upstream, score_scale=scale, **arguments
            )

        return found.dropped if is_dropped else found.weights, backward

    return compute(scores)
