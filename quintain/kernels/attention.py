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

from quintain.kernels import attention_weights, dropout, library, selection


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
        bias: Of the same type and broadcast to the scores `[B, H, Q, K]`; None for nothing. Its
            gradient computes the scores once more, where it is asked for; a mask's costs nothing.
        num_heads: H; must divide D.
        scale: What scores are multiplied by.
        draw: Which weights are dropped; None for nothing.

    Returns:
        `[B, Q, D]`.
    """
    operations, dtype = library.get(), queries.dtype
    nothing = tf.zeros([0], dtype)
    given = {"queries": queries, "memory": memory}
    given["bias"] = None if bias is None else _to_scores(bias)
    given = {name: tensor for name, tensor in given.items() if tensor is not None}
    is_learnt = attention_weights.is_learnt(given.get("bias"))
    arguments = {
        "num_heads": num_heads,
        "score_scale": scale,
        **(draw or dropout.Draw()).to_arguments(dtype),
    }

    @tf.custom_gradient
    def compute(*tensors: tf.Tensor) -> tuple[tf.Tensor, Callable[[tf.Tensor], Any]]:
        inputs = {"memory": nothing, "bias": nothing, **dict(zip(given, tensors, strict=True))}

        def backward(upstream: tf.Tensor) -> Any:
            options = {**inputs, "upstream": upstream, **arguments}
            found = operations.quintain_attention_gradient(**options)
            gradients = list(found)[: 2 if "memory" in given else 1]
            if is_learnt:
                gradients.append(operations.quintain_attention_bias_gradient(**options))
            return [*gradients, None][: len(given)]

        return operations.quintain_attention(**inputs, **arguments), backward

    return compute(*given.values())


def _to_scores(bias: tf.Tensor) -> tf.Tensor:
    """Returns a bias with the dimensions of scores, the missing ones first."""
    return bias[(tf.newaxis,) * (4 - bias.shape.rank)]
