"""A dense layer with ReLU or GELU and dropout after it; sums of rows.

Shapes:
    N  rows: positions of all examples
    D  width of the inputs
    F  width of the outputs
"""

from collections.abc import Callable
from typing import Any

import tensorflow as tf

from quintain.kernels import dropout, library, products


def expand(
    inputs: tf.Tensor,
    kernel: tf.Tensor,
    bias: tf.Tensor,
    *,
    is_gelu: bool,
    draw: dropout.Draw,
) -> tf.Tensor:
    """Computes `dropout(activation(inputs @ kernel + bias))`.

    The way back reads off the outputs where ReLU let a number through; of GELU, approximated by
    tanh, it keeps the derivative. The gradient of the bias is summed in the same pass.

    Args:
        inputs: `[N, D]` float32 or bfloat16.
        kernel: `[D, F]`.
        bias: `[F]`.
        is_gelu: Whether the activation is GELU, instead of ReLU.
        draw: What is dropped.

    Returns:
        `[N, F]`.
    """
    operations = library.get()
    arguments = draw.to_arguments(inputs.dtype)
    is_ours = products.can_multiply(inputs)
    multiply = products.product if is_ours else _multiply

    @tf.custom_gradient
    def compute(
        x: tf.Tensor, kernel: tf.Tensor, bias: tf.Tensor
    ) -> tuple[tf.Tensor, Callable[[tf.Tensor], Any]]:
        product = multiply(x, kernel, bias)  # [N, F]
        found = operations.quintain_activation(inputs=product, is_gelu=is_gelu, **arguments)

        def backward(upstream: tf.Tensor) -> Any:
            gradients = operations.quintain_activation_gradient(
                slopes=found.slopes if is_gelu else found.outputs,
                upstream=upstream,
                is_gelu=is_gelu,
                scale=arguments["scale"],
            )
            weights_gradient = multiply(x, gradients.gradient, transpose_left=True)  # [D, F]
            return (
                multiply(gradients.gradient, kernel, transpose_right=True),  # [N, D]
                tf.cast(weights_gradient, kernel.dtype),
                gradients.bias_gradient,
            )

        return found.outputs, backward

    return compute(inputs, products.read_source(kernel) if is_ours else kernel, bias)


def _multiply(
    left: tf.Tensor,
    right: tf.Tensor,
    bias: tf.Tensor | None = None,
    *,
    transpose_left: bool = False,
    transpose_right: bool = False,
) -> tf.Tensor:
    """Computes what `products.product` does with TensorFlow's operations."""
    product = tf.matmul(left, right, transpose_a=transpose_left, transpose_b=transpose_right)
    return product if bias is None else tf.nn.bias_add(product, bias)


def sum_rows(rows: tf.Tensor) -> tf.Tensor:
    """Returns the sum `[F]` of rows `[N, F]`, float32 or bfloat16, added up in float32."""
    return library.get().quintain_sum_rows(rows=rows)
