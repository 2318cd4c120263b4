"""Attention of all heads in one operation, from projections to mixed values.

Shapes:
    B  examples
    H  heads
    Q  queries
    K  keys
    D  width: the heads side by side
"""

from collections.abc import Callable
from typing import Any

import tensorflow as tf

from quintain.kernels import dropout, library, selection


def can_attend(queries: tf.Tensor) -> bool:
    """Returns whether `attend` is to be used for queries.

    Not for bfloat16 where TensorFlow's products use the processor's units for whole tiles (AMX),
    and ours do not.
    """
    if not selection.is_native() or queries.dtype not in (tf.float32, tf.bfloat16):
        return False
    return queries.dtype == tf.float32 or not library.load().functions.quintain_leaves_amx()


def attend(
    queries: tf.Tensor,
    memory: tf.Tensor | None,
    bias: tf.Tensor | None,
    *,
    num_heads: int,
    scale: float,
    draw: dropout.Draw | None,
) -> tf.Tensor:
    """Mixes values by `dropout(softmax(queries * keys * scale + bias))`.

    Scores and weights are held for a few queries of a head at a time, in float32; the way back
    computes them again, and draws the dropout's bits again, so that nothing is kept for it.

    Args:
        queries: `[B, Q, D]` float32 or bfloat16; or `[B, Q, 3 * D]`, with keys and values beside
            the queries, where there is no memory.
        memory: `[B, K, 2 * D]`, keys beside values; None for none.
        bias: Of the same type and broadcast to the scores `[B, H, Q, K]`; None for nothing. It has
            no gradient.
        num_heads: H; must divide D.
        scale: What scores are multiplied by.
        draw: Which weights are dropped; None for nothing.

    Returns:
        `[B, Q, D]`.
    """
    operations, dtype = library.get(), queries.dtype
    nothing = tf.zeros([0], dtype)
    arguments = {
        "bias": nothing if bias is None else _to_scores(tf.stop_gradient(bias)),
        "num_heads": num_heads,
        "score_scale": scale,
        **(draw or dropout.Draw()).to_arguments(dtype),
    }

    @tf.custom_gradient
    def compute(*given: tf.Tensor) -> tuple[tf.Tensor, Callable[[tf.Tensor], Any]]:
        queries, memory = given if len(given) > 1 else (*given, nothing)

        def backward(upstream: tf.Tensor) -> Any:
            found = operations.quintain_attention_gradient(
                queries=queries, memory=memory, upstream=upstream, **arguments
            )
            return list(found)[: len(given)]

        mixed = operations.quintain_attention(queries=queries, memory=memory, **arguments)
        return mixed, backward

    return compute(queries) if memory is None else compute(queries, memory)


def _to_scores(bias: tf.Tensor) -> tf.Tensor:
    """Returns a bias with the dimensions of scores, the missing ones first."""
    return bias[(tf.newaxis,) * (4 - bias.shape.rank)]
