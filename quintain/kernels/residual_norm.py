"""Dropout, the residual that it is added to, and layer normalisation of the sum, in one pass.

Shapes:
    N  rows: positions of all examples
    D  their width
"""

from collections.abc import Callable
from typing import Any

import tensorflow as tf

from quintain.kernels import dropout, library


def normalise(
    inputs: tf.Tensor,
    gamma: tf.Tensor,
    beta: tf.Tensor,
    *,
    epsilon: float,
    dtype: tf.DType,
    residual: tf.Tensor | None = None,
    draw: dropout.Draw | None = None,
) -> tf.Tensor:
    """Normalises the rows of `residual + dropout(inputs)`.

    The way back keeps that sum and two numbers a row, and draws the dropout's bits again.

    Args:
        inputs: `[..., D]`, float32 or bfloat16.
        gamma: `[D]` float32, by which normalised rows are multiplied.
        beta: `[D]` float32, which is added then.
        epsilon: Added to the variance.
        dtype: Type of the normalised rows.
        residual: Shaped as the inputs, float32 or bfloat16; None for nothing.
        draw: What is dropped; None for nothing.

    Returns:
        The normalised rows.
    """
    given = _list(inputs, gamma, beta, residual)
    compute = _build(given, epsilon, dtype, draw)

    @tf.custom_gradient
    def apply(*given: tf.Tensor) -> tuple[tf.Tensor, Callable[..., Any]]:
        (_, outputs), backward = compute(*given)
        return outputs, lambda upstream: backward(None, upstream)

    return tf.reshape(apply(*given), tf.shape(inputs))


def add_and_normalise(
    inputs: tf.Tensor,
    gamma: tf.Tensor,
    beta: tf.Tensor,
    *,
    epsilon: float,
    dtype: tf.DType,
    residual: tf.Tensor,
    draw: dropout.Draw | None = None,
) -> tuple[tf.Tensor, tf.Tensor]:
    """Returns the sum that `normalise` normalises, typed as the residual, and the result."""
    given = _list(inputs, gamma, beta, residual)
    apply = tf.custom_gradient(_build(given, epsilon, dtype, draw))
    total, outputs = apply(*given)
    shape = tf.shape(inputs)
    return tf.reshape(total, shape), tf.reshape(outputs, shape)


def _list(
    inputs: tf.Tensor, gamma: tf.Tensor, beta: tf.Tensor, residual: tf.Tensor | None
) -> list[tf.Tensor]:
    width = inputs.shape[-1]
    if residual is not None and residual.dtype == tf.bfloat16:
        inputs = tf.cast(inputs, tf.bfloat16)
    given = [tf.reshape(inputs, [-1, width]), gamma, beta]  # [N, D], [D], [D]
    return given if residual is None else [*given, tf.reshape(residual, [-1, width])]


def _build(
    given: list[tf.Tensor], epsilon: float, dtype: tf.DType, draw: dropout.Draw | None
) -> Callable[..., Any]:
    """Returns a function of `given`: both results, and the function for the way back."""
    operations = library.get()
    is_added, is_dropped = len(given) > 3, draw is not None
    arguments = (draw or dropout.Draw()).to_arguments(given[0].dtype)
    nothing = tf.zeros([0, given[0].shape[-1]], given[-1].dtype if is_added else given[0].dtype)

    def compute(
        x: tf.Tensor, gamma: tf.Tensor, beta: tf.Tensor, *residual: tf.Tensor
    ) -> tuple[tuple[tf.Tensor, tf.Tensor], Callable[..., Any]]:
        found = operations.quintain_residual_norm(
            residual=residual[0] if residual else nothing,
            inputs=x,
            gamma=gamma,
            beta=beta,
            epsilon=epsilon,
            Output=dtype,
            **arguments,
        )
        total = found.total if is_added or is_dropped else x

        def backward(total_upstream: tf.Tensor | None, upstream: tf.Tensor) -> list[tf.Tensor]:
            more, *own = operations.quintain_residual_norm_gradient(
                total=total,
                total_upstream=nothing if total_upstream is None else total_upstream,
                upstream=upstream,
                means=found.means,
                scales=found.scales,
                gamma=gamma,
                Input=x.dtype,
                is_added=is_added,
                **arguments,
            )
            return [*own, more] if is_added else own

        return (total, found.outputs), backward

    return compute
