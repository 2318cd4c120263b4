"""Adapters for sparse gradients, as those of embeddings."""

from typing import Any

import tensorflow as tf

from quintain.kernels import selection


def densify(gradient: Any, variable: Any) -> tf.Tensor:
    """Returns a gradient as a tensor of the variable's type; repeated rows are summed.

    Replicas sum dense gradients only: within a loop over steps, TensorFlow's collective operations
    fail where a shape, such as the number of rows, is another one than in the step before.

    Args:
        gradient: `tf.Tensor` or `tf.IndexedSlices`.
        variable: The variable it belongs to.
    """
    if isinstance(gradient, tf.IndexedSlices):
        gradient = tf.math.unsorted_segment_sum(
            gradient.values, gradient.indices, variable.shape[0]
        )
    elif selection.is_native():
        from quintain.kernels import table_gradient  # noqa: PLC0415 - only native steps do

        gradient = table_gradient.fuse(gradient)
    return tf.cast(gradient, variable.dtype)


def multiply(gradient: Any, factor: tf.Tensor) -> Any:
    """Multiplies a gradient, dense or sparse, by a scalar."""
    if isinstance(gradient, tf.IndexedSlices):
        values = gradient.values * tf.cast(factor, gradient.values.dtype)
        return tf.IndexedSlices(values, gradient.indices, gradient.dense_shape)
    return gradient * tf.cast(factor, gradient.dtype)
