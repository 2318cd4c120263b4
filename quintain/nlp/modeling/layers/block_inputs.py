"""Inputs of a block as the Model Garden passes them: one tensor, or a list."""

from typing import Any, NamedTuple

import keras
import tensorflow as tf

from quintain import errors


class BlockInputs(NamedTuple):
    """The inputs of a block of an encoder."""

    queries: Any
    """`[B, Q, D]`: what is encoded, and attends."""

    key_value: Any
    """`[B, K, D]`: what is attended to, or None for the queries."""

    mask: Any
    """`[B, Q, K]`: 1 where a position may be attended to, 0 where not; None for all."""


def read_inputs(inputs: Any) -> BlockInputs:
    """Returns the inputs of a block from `x`, `[x, mask]` or `[x, key_value, mask]`.

    Raises:
        ValueError: If there are more.
    """
    if not isinstance(inputs, list | tuple):
        return BlockInputs(inputs, None, None)
    if len(inputs) == 2:
        return BlockInputs(inputs[0], None, inputs[1])
    if len(inputs) == 3:
        return BlockInputs(*inputs)
    raise ValueError(
        f"inputs: got {len(inputs)} tensors, expected one, or [x, mask], or [x, key_value, mask]."
    )


def read_shapes(input_shape: Any) -> tuple[tuple[int | None, ...], tuple[int | None, ...]]:
    """Returns the shapes of queries and of what is attended to, from that of such inputs."""
    if isinstance(input_shape, tf.TensorShape) or not isinstance(
        input_shape[0], list | tuple | tf.TensorShape
    ):
        shape = tuple(input_shape)
        return shape, shape
    queries = tuple(input_shape[0])
    return queries, tuple(input_shape[1]) if len(input_shape) == 3 else queries


def check_rank(shape: tuple[int | None, ...]) -> None:
    """Checks that a block's inputs are `[B, S, D]`.

    Raises:
        ConfigError: If they are not.
    """
    if len(shape) != 3:
        raise errors.ConfigError(
            f"inputs: got the shape {shape}, expected [batch, positions, width]."
        )


def check_heads(num_heads: int, width: int) -> None:
    """Checks that heads part the width.

    Raises:
        ConfigError: If they do not.
    """
    if width % num_heads:
        raise errors.ConfigError(
            f"num_attention_heads: got {num_heads}, expected a divisor of the width {width}."
        )


def is_range(output_range: Any) -> bool:
    """Returns whether a block is to encode the beginning only; 0 and None mean all."""
    return output_range is not None and not (isinstance(output_range, int) and output_range == 0)


def choose(x: tf.Tensor, mask: Any, chosen: slice | None) -> tuple[tf.Tensor, Any]:
    """Returns the queries that are chosen, None for all, and the mask's rows for them."""
    if chosen is None:
        return x, mask
    return x[:, chosen], mask if mask is None or mask.shape[1] == 1 else mask[:, chosen]


def has_to_be_built(part: Any) -> bool:
    """Returns whether a part is a layer without its weights; one that is only called has none."""
    return isinstance(part, keras.layers.Layer) and not part.built


def build_attention(layer: Any, shape: Any, key_value_shape: Any) -> None:
    """Makes the weights of an attention of any class, so that they are there before it is called.

    It is one of Keras, or anything that is called with `query` and `value`, of these shapes.
    """
    if not has_to_be_built(layer):
        return
    if isinstance(layer, keras.layers.MultiHeadAttention):
        layer.build(shape, key_value_shape)
    else:
        layer(query=keras.KerasTensor(shape), value=keras.KerasTensor(key_value_shape))
