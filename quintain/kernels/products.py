"""Matrix products in bfloat16, where ours are quicker than TensorFlow's.

Those are processors that multiply pairs of bfloat16 numbers, or whole tiles of them (AMX), if the
compiler and the operating system know of these.

Shapes:
    N  rows
    D  inputs
    F  outputs
"""

from collections.abc import Callable
from typing import Any

import tensorflow as tf

from quintain.kernels import casts, library, selection


def can_multiply(left: tf.Tensor) -> bool:
    """Returns whether `multiply` is to be used for what is multiplied from the left."""
    return (
        selection.is_native()
        and left.dtype == tf.bfloat16
        and bool(library.load().functions.quintain_has_fast_products())
    )


def multiply(
    left: tf.Tensor,
    right: tf.Tensor,
    bias: tf.Tensor | None = None,
    *,
    transpose_right: bool = False,
) -> tf.Tensor:
    """Computes `left @ right + bias`, added up in float32.

    In a graph, a right matrix that was cast from float32 is read as float32, so that the cast is
    neither computed nor kept.

    Args:
        left: `[N, D]` bfloat16.
        right: `[D, F]` bfloat16, or `[F, D]` if `transpose_right`.
        bias: `[F]` bfloat16; None for none.
        transpose_right: Whether the right matrix is kept transposed.

    Returns:
        `[N, F]` bfloat16.
    """

    @tf.custom_gradient
    def compute(
        left: tf.Tensor, right: tf.Tensor, *biases: tf.Tensor
    ) -> tuple[tf.Tensor, Callable[[tf.Tensor], Any]]:
        def backward(upstream: tf.Tensor) -> Any:
            left_gradient = product(upstream, right, transpose_right=not transpose_right)
            if transpose_right:
                factors = (upstream, left)
                sums = [tf.reduce_sum(upstream, axis=0)] * len(biases)
                gradient = product(*factors, transpose_left=True)
            else:
                gradient, total = product_and_sums(left, upstream)
                sums = [total] * len(biases)
            return (left_gradient, tf.cast(gradient, right.dtype), *sums)

        return product(left, right, *biases, transpose_right=transpose_right), backward

    return compute(left, read_source(right), *([] if bias is None else [bias]))


def product(
    left: tf.Tensor,
    right: tf.Tensor,
    bias: tf.Tensor | None = None,
    *,
    transpose_left: bool = False,
    transpose_right: bool = False,
) -> tf.Tensor:
    """Computes `left @ right + bias` without a gradient.

    Args:
        left: `[N, D]` bfloat16, or `[D, N]` if `transpose_left`.
        right: `[D, F]` bfloat16 or float32, which is rounded; or `[F, D]` if `transpose_right`.
        bias: `[F]` bfloat16; None for none.
        transpose_left: Whether the left matrix is kept transposed.
        transpose_right: Whether the right one is.

    Returns:
        `[N, F]` bfloat16.
    """
    found = library.get().quintain_product(
        left=left,
        right=right,
        bias=tf.zeros([0], tf.bfloat16) if bias is None else bias,
        transpose_left=transpose_left,
        transpose_right=transpose_right,
        sum_right=False,
    )
    return found.product


def product_and_sums(left: tf.Tensor, right: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """Returns the gradients of a dense layer's weights.

    Args:
        left: `[N, D]` bfloat16, the inputs.
        right: `[N, F]` bfloat16, the gradient of the outputs.

    Returns:
        `left`, transposed, times `right`, `[D, F]`; and the sums of the rows of `right`, `[F]`.
    """
    found = library.get().quintain_product(
        left=left,
        right=right,
        bias=tf.zeros([0], tf.bfloat16),
        transpose_left=True,
        transpose_right=False,
        sum_right=True,
    )
    return found.product, found.sums


def read_source(weights: tf.Tensor) -> tf.Tensor:
    """Returns the float32 numbers that a bfloat16 tensor of a graph was cast from, if it was."""
    return casts.read_source(weights, cast_from=tf.float32, cast_to=tf.bfloat16)
