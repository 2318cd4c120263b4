"""Finds what a tensor of a graph was cast from: read as it is, the cast need not be computed."""

from collections.abc import Callable

import tensorflow as tf

from quintain.kernels import selection


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


def widen(numbers: tf.Tensor) -> tf.Tensor:
    """Casts to float32; in native steps with a gradient that is not cast to float32 and back.

    A kernel that reads `numbers` instead of the result gives a gradient cast from their type.
    """
    if numbers.dtype != tf.bfloat16 or not selection.is_native():
        return tf.cast(numbers, tf.float32)

    @tf.custom_gradient
    def compute(x: tf.Tensor) -> tuple[tf.Tensor, Callable[[tf.Tensor], tf.Tensor]]:
        def backward(upstream: tf.Tensor) -> tf.Tensor:
            source = find_source(upstream, cast_from=x.dtype, cast_to=tf.float32)
            return tf.cast(source, x.dtype)

        return tf.cast(x, tf.float32), backward

    return compute(numbers)
