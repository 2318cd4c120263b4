"""Elimination of casts: finds the tensor of a graph that another one was cast from."""

from collections.abc import Callable

import tensorflow as tf
from tensorflow.python.eager import record  # There is no public way to record a gradient.

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


def read_source(tensor: tf.Tensor, *, cast_from: tf.DType, cast_to: tf.DType) -> tf.Tensor:
    """Returns what `find_source` does, with a gradient that goes to `tensor` as it was given.

    From there it goes through the cast, as if the numbers had been read from its result. Neither
    this cast is computed nor that of a gradient that was cast to `cast_from`.
    """
    source = find_source(tensor, cast_from=cast_from, cast_to=cast_to)
    if source is tensor:
        return tensor

    def backward(upstream: tf.Tensor) -> list[tf.Tensor]:
        exact = find_source(upstream, cast_from=cast_to, cast_to=cast_from)
        return [tf.cast(exact, cast_to)]

    return stand_in(tensor, lambda: tf.identity(source), backward)


def stand_in(
    tensor: tf.Tensor,
    read: Callable[[], tf.Tensor],
    backward: Callable[[tf.Tensor], list[tf.Tensor]],
) -> tf.Tensor:
    """Returns what `read` gives, for tapes a function of `tensor`, which is not computed for it.

    Args:
        tensor: What the gradient goes to.
        read: Computes what stands in for it, which tapes don't see.
        backward: Turns the gradient of that into a list of the gradient of `tensor`.
    """
    with record.stop_recording():
        numbers = read()
    # As `tf.custom_gradient` does, whose operation would compute `tensor`, as an input of its own.
    record.record_operation("StandIn", [numbers], [tensor], backward)
    return numbers


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
