"""One example's gradient of one variable, in the form that is cheapest to measure and to sum.

Inside a vectorised function a tensor knows the operation that made it. The gradient of a weight
matrix was made by a product of two factors, that of an embedding by gathering rows. Such gradients
leave the function as their factors: their sum over examples is then one large product instead of
many small ones.

Shapes:
    M     examples in a microbatch
    L     positions at which an example uses the weights; 1 in a dense layer on a vector
    I, O  rows and columns of a weight matrix
    V, D  rows and width of an embedding
"""

import math
from collections.abc import Sequence
from typing import Any, Final

import tensorflow as tf

_RESHAPES: Final = frozenset({"Reshape", "Squeeze", "ExpandDims", "Identity", "Cast", "Sum"})
_PRODUCTS: Final = {
    "MatMul": ("transpose_a", "transpose_b"),
    "BatchMatMulV2": ("adj_x", "adj_y"),
}


class SummedGradient:
    """Per-example gradient of one variable, summed outside the vectorised function.

    Attributes:
        kind: `product` of two factors, `rows` of an embedding, or `dense`.
        tensors: What leaves the function.
    """

    def __init__(self, gradient: Any, shape: Sequence[int]) -> None:
        """Looks at how the gradient was made.

        Args:
            gradient: `tf.Tensor` or `tf.IndexedSlices`, made inside the vectorised function.
            shape: Shape of the variable.
        """
        self._shape = tuple(shape)
        self.tensors: tuple[tf.Tensor, ...]
        if isinstance(gradient, tf.IndexedSlices):
            width = math.prod(self._shape[1:])
            values = tf.cast(tf.reshape(gradient.values, [-1, width]), tf.float32)  # [L, D]
            self.kind = "rows"
            self.tensors = (tf.reshape(gradient.indices, [-1]), values)
            return
        factors = _find_factors(gradient, math.prod(self._shape))
        self.kind = "dense" if factors is None else "product"
        self.tensors = factors or (tf.cast(gradient, tf.float32),)

    def square(self) -> tf.Tensor:
        """Returns the squared L2 norm, a scalar float32."""
        if self.kind == "rows":
            return _square_of_rows(*self.tensors)
        if self.kind == "dense":
            return tf.reduce_sum(tf.square(self.tensors[0]))
        left, right = self.tensors  # [L, I], [L, O]
        if left.shape[0] == 1:
            return tf.reduce_sum(tf.square(left)) * tf.reduce_sum(tf.square(right))
        # Summing products of positions would be cheaper for short examples, but loses the small
        # norm of large parts that cancel, and with it the limit on one example's influence.
        return tf.reduce_sum(tf.square(tf.matmul(left, right, transpose_a=True)))

    def sum(self, rows: Sequence[tf.Tensor], weights: tf.Tensor, is_used: tf.Tensor) -> tf.Tensor:
        """Returns the weighted sum over the examples of a microbatch.

        Args:
            rows: `tensors`, with M as the first dimension.
            weights: `[M]` float32.
            is_used: `[M]` bool. What is not used may be NaN.

        Returns:
            Float32, of the variable's shape.
        """
        *plain, last = rows
        last = _keep(last, is_used) * _expand(weights, last)
        if self.kind == "dense":
            return tf.reduce_sum(last, axis=0)
        flat = _stack_positions(last)  # [M * L, O] or [M * L, D]
        if self.kind == "rows":
            indices = tf.reshape(plain[0], [-1])  # [M * L]
            total = tf.math.unsorted_segment_sum(flat, indices, self._shape[0])  # [V, D]
        else:
            left = _keep(plain[0], is_used)
            total = tf.matmul(_stack_positions(left), flat, transpose_a=True)  # [I, O]
        return tf.reshape(total, self._shape)


def _find_factors(gradient: tf.Tensor, size: int) -> tuple[tf.Tensor, tf.Tensor] | None:
    """Returns `[L, I]` and `[L, O]` float32 whose product is the gradient, if it is one."""
    operation = gradient.op
    while operation.type in _RESHAPES and operation.inputs[0].shape.num_elements() == size:
        operation = operation.inputs[0].op
    if operation.type not in _PRODUCTS:
        return None
    left, right = operation.inputs
    if any(extent != 1 for extent in [*left.shape[:-2], *right.shape[:-2]]):
        return None
    left, right = (tf.reshape(part, tf.shape(part)[-2:]) for part in (left, right))
    is_left_turned, is_right_turned = map(operation.get_attr, _PRODUCTS[operation.type])
    left = left if is_left_turned else tf.transpose(left)  # [L, I]
    right = tf.transpose(right) if is_right_turned else right  # [L, O]
    return tf.cast(left, tf.float32), tf.cast(right, tf.float32)


def _square_of_rows(indices: tf.Tensor, values: tf.Tensor) -> tf.Tensor:
    """Returns the squared norm of rows `[L, D]` added up by their indices `[L]`."""
    is_equal = tf.equal(indices[:, tf.newaxis], indices[tf.newaxis, :])  # [L, L]
    summed = tf.matmul(tf.cast(is_equal, values.dtype), values)  # [L, D]
    is_before = tf.linalg.band_part(tf.ones_like(is_equal, tf.float32), -1, 0) - tf.eye(
        tf.shape(indices)[0]
    )
    is_repeated = tf.reduce_any(tf.logical_and(is_equal, is_before > 0), axis=1)  # [L]
    squares = tf.reduce_sum(tf.square(summed), axis=1)  # [L]
    return tf.reduce_sum(tf.where(is_repeated, 0.0, squares))


def _expand(row: tf.Tensor, like: tf.Tensor) -> tf.Tensor:
    return tf.reshape(row, [-1] + [1] * (like.shape.rank - 1))


def _keep(part: tf.Tensor, is_used: tf.Tensor) -> tf.Tensor:
    return tf.where(_expand(is_used, part), part, tf.zeros_like(part))


def _stack_positions(part: tf.Tensor) -> tf.Tensor:
    """Makes `[M * L, I]` of `[M, L, I]`."""
    return tf.reshape(part, tf.stack([-1, tf.shape(part)[-1]]))
