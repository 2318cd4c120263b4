"""Scores of attention to its weights, some of them dropped, in one pass.

Shapes:
    B  examples
    H  heads
    Q  queries
    K  keys
"""

from collections.abc import Callable
from typing import Any

import tensorflow as tf
from tensorflow.python.eager import record  # There is no public way to ask what tapes watch.

from quintain.kernels import dropout, library


def weigh(
    scores: tf.Tensor, bias: tf.Tensor | None, *, scale: float, draw: dropout.Draw | None
) -> tf.Tensor:
    """Computes `dropout(softmax(scores * scale + bias))`, in float32 but for the results.

    The way back keeps the weights before the dropout, in the place of the scores, and draws the
    dropout's bits again.

    Args:
        scores: `[B, H, Q, K]` float32 or bfloat16; nothing else may need them.
        bias: `[B, H, Q, K]`, of which each may be 1, and of the same type; None for nothing. Its
            gradient is computed where it is asked for; a mask's costs nothing.
        scale: What scores are multiplied by.
        draw: What is dropped; None for nothing.

    Returns:
        `[B, H, Q, K]`.
    """
    operations = library.get()
    is_dropped = draw is not None
    arguments = (draw or dropout.Draw()).to_arguments(scores.dtype)
    given = [scores] if bias is None else [scores, bias]
    has_bias_gradient = is_learnt(bias)

    @tf.custom_gradient
    def compute(scores: tf.Tensor, *bias: tf.Tensor) -> tuple[tf.Tensor, Callable[..., Any]]:
        shifts = bias[0] if bias else tf.zeros([0], scores.dtype)
        found = operations.quintain_attention_weights(
            scores=scores, bias=shifts, score_scale=scale, **arguments
        )

        def backward(upstream: tf.Tensor) -> Any:
            options = {"weights": found.weights, "upstream": upstream, **arguments}
            gradients = [
                operations.quintain_attention_weights_gradient(score_scale=scale, **options)
            ]
            if has_bias_gradient:
                gradients.append(
                    operations.quintain_attention_weights_bias_gradient(bias=shifts, **options)
                )
            return [*gradients, None][: len(given)]

        return found.dropped if is_dropped else found.weights, backward

    return compute(*given)


def is_learnt(bias: tf.Tensor | None) -> bool:
    """Returns whether somebody may ask for a bias's gradient.

    In a graph that is known at its end only, when all is left out that nobody has asked for.
    """
    if bias is None or not tf.executing_eagerly():
        return bias is not None
    return record.should_record_backprop([bias])
