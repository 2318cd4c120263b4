"""Finds what a tensor of a graph was cast from: read as it is, the cast need not be computed."""

import tensorflow as tf


def find_source(tensor: tf.Tensor, *, cast_from: tf.DType, cast_to: tf.DType) -> tf.Tensor:
    """Returns the numbers that a tensor of a graph was cast from.

    Args:
        tensor: Any tensor.
        cast_from: Type that they must have.
        cast_to: Type that `tensor` must have.

    Returns:
        The numbers; `tensor` itself if it is no such cast.
    """
    if not tf.is_symbolic_tensor(tensor) or tensor.op.type != "Cast":
        return tensor
    source = tensor.op.inputs[0]
    return source if (source.dtype, tensor.dtype) == (cast_from, cast_to) else tensor
