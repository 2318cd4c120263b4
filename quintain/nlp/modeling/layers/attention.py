"""Multi-head attention with fused projections.

Shapes:
    B  examples in the batch
    Q  query positions
    K  key positions
    H  attention heads
    D  width of the model
    N  tokens of all examples, where padding is left out
"""

import math
from collections.abc import Callable
from typing import Any

import keras
import tensorflow as tf

from quintain import errors
from quintain.nlp.modeling.layers import dropout, packed_rows

MASKED_SCORE = -1e4
"""Added to the scores of masked positions: far below any score, and finite in float16."""


class Projection(keras.layers.Layer):
    """A dense layer computed as one matrix product over all positions."""

    def __init__(
        self, width: int, *, num_parts: int = 1, use_bias: bool, gain: float = 1.0, **kwargs: Any
    ) -> None:
        """Stores the sizes.

        Args:
            width: Output width of each part.
            num_parts: Projections computed at once and returned side by side.
            use_bias: Whether to add a bias.
            gain: Factor of the Glorot-uniform limits of the initial weights.
            **kwargs: Arguments of a Keras layer.
        """
        super().__init__(**kwargs)
        self.width = width
        self.num_parts = num_parts
        self.use_bias = use_bias
        self.gain = gain

    def build(self, input_shape: Any) -> None:
        """Creates the weights; each part starts as a layer of its own would."""
        limit = self.gain * math.sqrt(6.0 / (input_shape[-1] + self.width))
        width = self.width * self.num_parts
        self.kernel = self.add_weight(
            shape=(input_shape[-1], width),
            initializer=keras.initializers.RandomUniform(-limit, limit),
            name="kernel",
        )
        self.bias = None
        if self.use_bias:
            self.bias = self.add_weight(shape=(width,), initializer="zeros", name="bias")

    def call(self, inputs: tf.Tensor) -> tf.Tensor:
        """Projects `[B, Q, D]` to `[B, Q, num_parts * width]`, or `[N, D]` likewise."""
        kernel = tf.convert_to_tensor(self.kernel)
        flat = tf.reshape(inputs, [-1, inputs.shape[-1]])  # [N, D]
        if self.bias is None:
            outputs = tf.matmul(flat, kernel)  # [N, num_parts * width]
        else:
            outputs = _multiply_and_add(flat, kernel, tf.convert_to_tensor(self.bias))
        if inputs.shape.rank == 2:
            return outputs
        shape = tf.shape(inputs)
        return tf.reshape(outputs, [shape[0], shape[1], kernel.shape[-1]])


@tf.custom_gradient
def _multiply_and_add(
    inputs: tf.Tensor, kernel: tf.Tensor, bias: tf.Tensor
) -> tuple[tf.Tensor, Callable[[tf.Tensor], tuple[tf.Tensor, ...]]]:
    """Returns `inputs @ kernel + bias`, for `[N, D]` inputs.

    Sums the bias's gradient as a matrix product, which is faster on CPUs than a reduction.
    """

    def backward(upstream: tf.Tensor) -> tuple[tf.Tensor, ...]:
        ones = tf.ones([1, tf.shape(upstream)[0]], upstream.dtype)  # [1, N]
        return (
            tf.matmul(upstream, kernel, transpose_b=True),  # [N, D]
            tf.matmul(inputs, upstream, transpose_a=True),  # [D, width]
            tf.squeeze(tf.matmul(ones, upstream), 0),  # [width]
        )

    return tf.nn.bias_add(tf.matmul(inputs, kernel), bias), backward


class _Attention(keras.layers.Layer):
    """What self-attention and attention to a memory share."""

    def __init__(
        self, num_heads: int, width: int, *, dropout_rate: float, use_bias: bool, **kwargs: Any
    ) -> None:
        super().__init__(**kwargs)
        if width % num_heads:
            raise errors.ConfigError(
                f"num_attention_heads: got {num_heads}, expected a divisor of the width {width}."
            )
        self.num_heads = num_heads
        self.width = width
        self.output_projection = Projection(width, use_bias=use_bias, name="output")
        self.dropout = dropout.Dropout(dropout_rate)

    def split_heads(
        self, x: tf.Tensor, num_parts: int = 1, rows: packed_rows.PackedRows | None = None
    ) -> list[tf.Tensor]:
        """Turns `[B, Q, num_parts * D]`, or such `rows`, into parts `[B, H, Q, D / H]`."""
        x = x if rows is None else rows.spread(x)  # [B, Q, num_parts * D]
        shape = tf.shape(x)
        heads = [shape[0], shape[1], num_parts, self.num_heads, self.width // self.num_heads]
        return tf.unstack(tf.transpose(tf.reshape(x, heads), [2, 0, 3, 1, 4]))

    def attend(
        self,
        queries: tf.Tensor,
        keys: tf.Tensor,
        values: tf.Tensor,
        bias: tf.Tensor | None,
        training: bool,
    ) -> tf.Tensor:
        """Mixes `values` by the softmax of the scaled products of `queries` and `keys`.

        Args:
            queries: `[B, H, Q, D / H]`.
            keys: `[B, H, K, D / H]`.
            values: `[B, H, K, D / H]`.
            bias: Added to the scores, broadcast to `[B, H, Q, K]`; None for nothing.
            training: Whether to drop weights.

        Returns:
            `[B, H, Q, D / H]`.
        """
        scale = (self.width // self.num_heads) ** -0.5
        scores = tf.matmul(queries * tf.cast(scale, queries.dtype), keys, transpose_b=True)
        if bias is not None:
            scores += bias
        weights = tf.cast(tf.nn.softmax(tf.cast(scores, tf.float32)), values.dtype)  # [B, H, Q, K]
        return tf.matmul(self.dropout(weights, training=training), values)

    def merge(self, mixed: tf.Tensor, rows: packed_rows.PackedRows | None) -> tf.Tensor:
        """Projects the heads' outputs `[B, H, Q, D / H]`, side by side, to `[B, Q, D]`."""
        shape = tf.shape(mixed)
        merged = tf.reshape(tf.transpose(mixed, [0, 2, 1, 3]), [shape[0], shape[2], self.width])
        return self.output_projection(merged if rows is None else rows.pack(merged))


class SelfAttention(_Attention):
    """Attention of a sequence to itself."""

    def __init__(
        self, num_heads: int, width: int, *, dropout_rate: float, use_bias: bool, **kwargs: Any
    ) -> None:
        """Creates the projections.

        Args:
            num_heads: Attention heads; must divide `width`.
            width: Width of inputs and outputs.
            dropout_rate: Share of the attention weights that training drops.
            use_bias: Whether projections have biases.
            **kwargs: Arguments of a Keras layer.

        Raises:
            ConfigError: If `num_heads` does not divide `width`.
        """
        super().__init__(num_heads, width, dropout_rate=dropout_rate, use_bias=use_bias, **kwargs)
        self.query_key_value = Projection(
            width, num_parts=3, use_bias=use_bias, name="query_key_value"
        )

    def build(self, input_shape: Any) -> None:
        """Builds the projections."""
        self.query_key_value.build(input_shape)
        self.output_projection.build(input_shape)

    def call(
        self,
        inputs: tf.Tensor,
        bias: tf.Tensor | None = None,
        training: bool = False,
        rows: packed_rows.PackedRows | None = None,
    ) -> tf.Tensor:
        """Attends from all positions to all positions of a sequence, as `bias` allows.

        Args:
            inputs: `[B, Q, D]`; or `[N, D]`, the tokens alone.
            bias: Added to the scores, broadcast to `[B, H, Q, Q]`; has to mask padding.
            training: Whether to apply dropout.
            rows: Where the tokens are, if `inputs` are tokens alone.

        Returns:
            Shaped as `inputs`.
        """
        queries, keys, values = self.split_heads(self.query_key_value(inputs), 3, rows)
        return self.merge(self.attend(queries, keys, values, bias, training), rows)


class CrossAttention(_Attention):
    """Attention of one sequence to another, the memory."""

    def __init__(
        self, num_heads: int, width: int, *, dropout_rate: float, use_bias: bool, **kwargs: Any
    ) -> None:
        """Creates the projections.

        Args:
            num_heads: Attention heads; must divide `width`.
            width: Width of inputs, memory and outputs.
            dropout_rate: Share of the attention weights that training drops.
            use_bias: Whether projections have biases.
            **kwargs: Arguments of a Keras layer.

        Raises:
            ConfigError: If `num_heads` does not divide `width`.
        """
        super().__init__(num_heads, width, dropout_rate=dropout_rate, use_bias=use_bias, **kwargs)
        self.query = Projection(width, use_bias=use_bias, name="query")
        self.key_value = Projection(width, num_parts=2, use_bias=use_bias, name="key_value")

    def build(self, input_shape: Any) -> None:
        """Builds the projections."""
        self.query.build(input_shape)
        self.key_value.build(input_shape)
        self.output_projection.build(input_shape)

    def read_memory(
        self, memory: tf.Tensor, rows: packed_rows.PackedRows | None = None
    ) -> tuple[tf.Tensor, tf.Tensor]:
        """Returns the keys and values of a memory, `[B, H, K, D / H]` each.

        Args:
            memory: `[B, K, D]`; or `[N, D]`, its tokens alone.
            rows: Where the tokens are, if `memory` has tokens alone.
        """
        keys, values = self.split_heads(self.key_value(memory), 2, rows)
        return keys, values

    def call(
        self,
        inputs: tf.Tensor,
        memory: tuple[tf.Tensor, tf.Tensor],
        bias: tf.Tensor | None = None,
        training: bool = False,
        rows: packed_rows.PackedRows | None = None,
    ) -> tf.Tensor:
        """Attends from `[B, Q, D]`, or the `rows` `[N, D]`, to what `read_memory` returned."""
        keys, values = memory
        (queries,) = self.split_heads(self.query(inputs), rows=rows)
        return self.merge(self.attend(queries, keys, values, bias, training), rows)
