"""Dropout in one pass, drawing the random bits that TensorFlow's stateless operations draw."""

import dataclasses
from collections.abc import Callable
from typing import Any

import tensorflow as tf

from quintain.kernels import library


@dataclasses.dataclass(frozen=True, kw_only=True)
class Draw:
    """Random draw of one dropout in one step; as it is made, nothing is dropped."""

    level_bytes: int = 0
    """Random bytes for each number, 1 or 2, which make a signed level; 0 if nothing is dropped."""

    first_kept: int = 0
    """The lowest level at which a number stays."""

    scale: float = 1.0
    """By which what stays is multiplied, in the type of the numbers."""

    seed: tf.Tensor | None = None
    """`[2]`: that of a stateless operation of TensorFlow, which draws the same."""

    def to_arguments(self, dtype: tf.DType) -> dict[str, Any]:
        """Returns what operations take, for numbers of a type."""
        if self.seed is None:
            key, counter = tf.zeros([1], tf.uint64), tf.zeros([2], tf.uint64)
        else:
            key, counter = tf.raw_ops.StatelessRandomGetKeyCounter(seed=self.seed)
        return {
            "key": key,
            "counter": counter,
            "level_bytes": self.level_bytes,
            "first_kept": self.first_kept,
            "scale": self.round_scale(dtype),
        }

    def round_scale(self, dtype: tf.DType) -> float:
        """Returns `scale`, rounded to a type."""
        return float(dtype.as_numpy_dtype(self.scale))


def drop(inputs: tf.Tensor, draw: Draw, residual: tf.Tensor | None = None) -> tf.Tensor:
    """Drops numbers out, and adds the others to `residual`.

    The way back draws the same bits again, so that nothing is kept for it.

    Args:
        inputs: Any shape, float32 or bfloat16.
        draw: What is dropped.
        residual: Of the same shape, maybe of the other type; None for nothing.

    Returns:
        Shaped and typed as the residual, or as the inputs.
    """
    operation = library.get().quintain_dropout
    dtype = inputs.dtype
    arguments = draw.to_arguments(dtype)
    nothing = tf.zeros([0], dtype if residual is None else residual.dtype)

    @tf.custom_gradient
    def compute(*given: tf.Tensor) -> tuple[tf.Tensor, Callable[[tf.Tensor], Any]]:
        total = given[1] if len(given) > 1 else nothing

        def backward(upstream: tf.Tensor) -> Any:
            gradient = operation(inputs=upstream, residual=tf.zeros([0], dtype), **arguments)
            return gradient if len(given) == 1 else (gradient, upstream)

        return operation(inputs=given[0], residual=total, **arguments), backward

    return compute(inputs) if residual is None else compute(inputs, residual)
