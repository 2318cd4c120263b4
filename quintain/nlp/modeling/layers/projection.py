"""A dense layer as one matrix product over all positions.

Shapes:
    B  examples in the batch
    S  positions
    D  width of the inputs
    N  positions of all examples
"""

from collections.abc import Callable, Sequence
from typing import Any

import keras
import tensorflow as tf

from quintain.kernels import feed_forward, products
from quintain.modeling import tf_utils
from quintain.nlp.modeling.layers import dropout, layer_arguments


class Projection(keras.layers.Layer):
    """A dense layer computed as one matrix product over all positions."""

    def __init__(
        self,
        width: int,
        *,
        num_parts: int = 1,
        use_bias: bool = True,
        kernel_initializer: Any = "glorot_uniform",
        bias_initializer: Any = "zeros",
        kernel_regularizer: Any = None,
        bias_regularizer: Any = None,
        kernel_constraint: Any = None,
        bias_constraint: Any = None,
        drawn_shape: Sequence[int] | None = None,
        **kwargs: Any,
    ) -> None:
        """Creates a layer without weights.

        Args:
            width: Output width of each part.
            num_parts: Projections computed at once and returned side by side.
            use_bias: Whether to add a bias.
            kernel_initializer: Keras' initializer of the kernel; each part draws its own numbers.
            bias_initializer: Likewise of the bias.
            kernel_regularizer: Keras' regularizer of the kernel.
            bias_regularizer: Likewise of the bias.
            kernel_constraint: Keras' constraint on the kernel.
            bias_constraint: Likewise on the bias.
            drawn_shape: Shape in which the initializer draws each part of the kernel; None for the
                part's own, `[D, width]`.
            **kwargs: Arguments of a Keras layer.
        """
        given = locals()
        super().__init__(**kwargs)
        self.width = width
        self.num_parts = num_parts
        self.use_bias = use_bias
        self._given = layer_arguments.LayerArguments(given)

    def build(self, input_shape: Any) -> None:
        """Creates the weights; each part starts as a layer of its own would."""
        width = self.width * self.num_parts
        self.kernel = self.add_weight(
            shape=(input_shape[-1], width),
            initializer=self._draw_kernel,
            name="kernel",
            regularizer=self._given.kernel_regularizer,
            constraint=self._given.kernel_constraint,
        )
        self.bias = None
        if self.use_bias:
            self.bias = self.add_weight(
                shape=(width,),
                initializer=tf_utils.clone_initializer(self._given.bias_initializer),
                name="bias",
                regularizer=self._given.bias_regularizer,
                constraint=self._given.bias_constraint,
            )
        self.built = True

    def _draw_kernel(self, shape: Sequence[int], dtype: Any = None) -> tf.Tensor:
        """Draws the parts of the kernel, `[D, num_parts * width]`."""
        part = (shape[0], self.width)
        initializer, drawn = self._given.kernel_initializer, self._given.drawn_shape or part
        draws = (
            tf_utils.clone_initializer(initializer)(drawn, dtype) for _ in range(self.num_parts)
        )
        return tf.concat([tf.reshape(draw, part) for draw in draws], axis=1)

    def call(
        self,
        inputs: tf.Tensor,
        parts: tuple[int, int] | None = None,
        compute: Callable[[tf.Tensor, tf.Tensor, tf.Tensor], tf.Tensor] | None = None,
    ) -> tf.Tensor:
        """Projects `[..., D]` to `[..., num_parts * width]`, or `[N, D]` likewise.

        Args:
            inputs: What is projected.
            parts: The first of the parts that are wanted, and the first after them; None for all.
            compute: Computes the outputs and what follows from inputs `[N, D]`, kernel and bias;
                None for the outputs alone.
        """
        kernel = tf.convert_to_tensor(self.kernel)
        bias = None if self.bias is None else tf.convert_to_tensor(self.bias)
        if parts is not None:
            first, end = (part * self.width for part in parts)
            kernel = kernel[:, first:end]
            bias = None if bias is None else bias[first:end]
        flat = tf.reshape(inputs, [-1, inputs.shape[-1]])  # [N, D]
        if bias is not None and compute is not None:
            outputs = compute(flat, kernel, bias)
        elif products.can_multiply(flat):
            outputs = products.multiply(flat, kernel, bias)
        else:
            outputs = (
                tf.matmul(flat, kernel) if bias is None else _multiply_and_add(flat, kernel, bias)
            )
        if inputs.shape.rank == 2:
            return outputs
        return tf.reshape(outputs, [*tf.unstack(tf.shape(inputs))[:-1], kernel.shape[-1]])


def multiply_by_table(inputs: tf.Tensor, table: tf.Tensor) -> tf.Tensor:
    """Returns the products `[N, V]` of inputs `[N, D]` with the rows of a table `[V, D]`."""
    if products.can_multiply(inputs):
        return products.multiply(inputs, table, transpose_right=True)
    return tf.matmul(inputs, table, transpose_b=True)


@tf.custom_gradient
def _multiply_and_add(
    inputs: tf.Tensor, kernel: tf.Tensor, bias: tf.Tensor
) -> tuple[tf.Tensor, Callable[[tf.Tensor], tuple[tf.Tensor, ...]]]:
    """Returns `inputs @ kernel + bias`, for `[N, D]` inputs.

    Without native kernels the bias's gradient is summed as a matrix product, which is faster on
    CPUs than a reduction.
    """
    is_native = dropout.can_be_native(inputs)

    def sum_rows(upstream: tf.Tensor) -> tf.Tensor:
        if is_native:
            return feed_forward.sum_rows(upstream)
        ones = tf.ones([1, tf.shape(upstream)[0]], upstream.dtype)  # [1, N]
        return tf.squeeze(tf.matmul(ones, upstream), 0)

    def backward(upstream: tf.Tensor) -> tuple[tf.Tensor, ...]:
        return (
            tf.matmul(upstream, kernel, transpose_b=True),  # [N, D]
            tf.matmul(inputs, upstream, transpose_a=True),  # [D, width]
            sum_rows(upstream),  # [width]
        )

    return tf.nn.bias_add(tf.matmul(inputs, kernel), bias), backward
