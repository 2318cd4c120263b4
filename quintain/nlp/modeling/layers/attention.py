"""Multi-head attention: Keras' own, one with a cache, and one with fused projections.

Shapes:
    B  examples in the batch
    Q  query positions
    K  key positions
    H  attention heads
    D  width of the model
    N  tokens of all examples, where padding is left out
"""

from collections.abc import MutableMapping
from typing import Any, Final

import keras
import tensorflow as tf
from typing_extensions import override

from quintain.kernels import attention_weights
from quintain.modeling import tf_utils
from quintain.nlp.modeling.layers import (
    block_inputs,
    dropout,
    einsum_attention,
    layer_arguments,
    packed_rows,
    projection,
)

MultiHeadAttention = keras.layers.MultiHeadAttention
EinsumDense = keras.layers.EinsumDense

MASKED_SCORE: Final = -1e4
"""Added to the scores of masked positions: far below any score, and finite in float16."""


def to_bias(mask: tf.Tensor, dtype: Any) -> tf.Tensor:
    """Returns what a mask adds to the scores.

    Args:
        mask: `[B, Q, K]`, any type: 1 where a position may be attended to, 0 where not. `Q` may be
            1, and `B` too, where all are the same.
        dtype: Float type of the scores.

    Returns:
        `[B, 1, Q, K]`: 0, or so little that nothing else counts, even where all is masked.
    """
    dtype = tf.as_dtype(dtype)
    lowest = -3e4 if dtype == tf.float16 else -1e9
    return ((1.0 - tf.cast(mask, dtype)) * tf.constant(lowest, dtype))[:, tf.newaxis]


class _Held:
    """Carries a cache past Keras, which gives layers copies of dictionaries."""

    def __init__(self, cache: MutableMapping[str, tf.Tensor]) -> None:
        self.cache = cache


class CacheInPlace(keras.layers.Layer):
    """A layer that changes the dictionary it is given as `cache`."""

    @override
    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if isinstance(kwargs.get("cache"), MutableMapping):
            kwargs["cache"] = _Held(kwargs["cache"])
        return super().__call__(*args, **kwargs)


def open_cache(cache: Any) -> Any:
    """Returns the `cache` that a `CacheInPlace` was called with, within its `call`."""
    return cache.cache if isinstance(cache, _Held) else cache


def update_cache(
    key: tf.Tensor, value: tf.Tensor, cache: MutableMapping[str, tf.Tensor], step: Any
) -> tuple[tf.Tensor, tf.Tensor]:
    """Puts the keys and values of new positions into a cache, and returns those of all.

    Args:
        key: `[B, Q, H, D / H]`, of the new positions.
        value: Likewise.
        cache: `key` and `value`, `[B, K, H, D / H]`; it is changed.
        step: Place of the one new position in a cache of fixed length, which is 0 there; None
            appends to the cache.
    """
    new = {"key": key, "value": value}
    for name, entries in new.items():
        former = tf.cast(cache[name], entries.dtype)
        if step is None:
            cache[name] = tf.concat([former, entries], axis=1)
        else:
            place = tf.one_hot(step, tf.shape(former)[1], dtype=entries.dtype)  # [K]
            cache[name] = former + entries * tf.reshape(place, [1, -1, 1, 1])
    return cache["key"], cache["value"]


@keras.saving.register_keras_serializable(package="Text")
class CachedAttention(CacheInPlace, einsum_attention.EinsumAttention):
    """Keras' attention, with a cache of keys and values for decoding one position at a time."""

    @override
    def call(
        self,
        query: tf.Tensor,
        value: tf.Tensor,
        key: tf.Tensor | None = None,
        attention_mask: tf.Tensor | None = None,
        cache: MutableMapping[str, tf.Tensor] | None = None,
        decode_loop_step: Any = None,
        return_attention_scores: bool = False,
        training: bool | None = None,
    ) -> tuple[Any, ...]:
        """Attends, and puts the keys and values into the cache.

        Args:
            query: `[B, Q, D]`.
            value: `[B, K, D]`.
            key: `[B, K, D]`; None for `value`.
            attention_mask: `[B, Q, K]`, with all positions of the cache; 0 where attention is not
                allowed.
            cache: `key` and `value`, `[B, K, H, D / H]`; it is changed. None or empty for none.
            decode_loop_step: Place of the new position in a cache of fixed length.
            return_attention_scores: Whether to return the attention's weights, too.
            training: Whether to apply dropout.

        Returns:
            The output `[B, Q, D]`, then the weights if they are asked for, and the cache.
        """
        key, cache = value if key is None else key, open_cache(cache)
        queries = self._query_dense(query)  # [B, Q, H, D / H]
        keys, values = self._key_dense(key), self._value_dense(value)
        if cache:
            keys, values = update_cache(keys, values, cache, decode_loop_step)
        mixed, weights = self._compute_attention(queries, keys, values, attention_mask, training)
        output = self._output_dense(mixed)
        return (output, weights, cache) if return_attention_scores else (output, cache)


class _Attention(keras.layers.Layer):
    """What self-attention and attention to a memory share."""

    def __init__(
        self,
        num_heads: int,
        width: int,
        *,
        dropout_rate: float,
        use_bias: bool,
        kernel_initializer: Any = None,
        bias_initializer: Any = "zeros",
        **kwargs: Any,
    ) -> None:
        given = locals()
        super().__init__(**kwargs)
        block_inputs.check_heads(num_heads, width)
        self.num_heads = num_heads
        self.width = width
        self._given = layer_arguments.LayerArguments(given)
        self.output_projection = self._project("output", is_joining=True)
        self.dropout = dropout.Dropout(dropout_rate)

    def _project(
        self, name: str, num_parts: int = 1, *, is_joining: bool = False
    ) -> projection.Projection:
        """Returns a dense layer from the width to heads, or from heads to the width."""
        given = self._given
        heads = (self.num_heads, self.width // self.num_heads)
        by_heads = (*heads, self.width) if is_joining else (self.width, *heads)
        initializer = tf_utils.clone_initializer(given.kernel_initializer)
        return projection.Projection(
            self.width,
            num_parts=num_parts,
            use_bias=given.use_bias,
            kernel_initializer=initializer or "glorot_uniform",
            bias_initializer=given.bias_initializer,
            drawn_shape=None if initializer is None else by_heads,
            name=name,
        )

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
            bias: Added to the scores, broadcast to `[B, H, Q, K]`; None for nothing. It has no
                gradient.
            training: Whether to drop weights.

        Returns:
            `[B, H, Q, D / H]`.
        """
        scale = (self.width // self.num_heads) ** -0.5
        if dropout.can_be_native(queries) and (bias is None or bias.shape.rank == 4):
            weights = attention_weights.weigh(
                tf.matmul(queries, keys, transpose_b=True),
                None if bias is None else tf.cast(bias, queries.dtype),
                scale=scale,
                draw=self.dropout.draw(training),
            )
            return tf.matmul(weights, values)
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
    """Attention of a sequence to itself, or of its beginning to all of it."""

    def __init__(
        self, num_heads: int, width: int, *, dropout_rate: float, use_bias: bool, **kwargs: Any
    ) -> None:
        """Creates the projections.

        Args:
            num_heads: Attention heads; must divide `width`.
            width: Width of inputs and outputs.
            dropout_rate: Share of the attention weights that training drops.
            use_bias: Whether projections have biases.
            **kwargs: `kernel_initializer`, which draws kernels split by heads as Keras' attention
                does; None draws whole matrices by Glorot. `bias_initializer`. Arguments of a Keras
                layer.

        Raises:
            ConfigError: If `num_heads` does not divide `width`.
        """
        super().__init__(num_heads, width, dropout_rate=dropout_rate, use_bias=use_bias, **kwargs)
        self.query_key_value = self._project("query_key_value", 3)

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
        memory: tf.Tensor | None = None,
    ) -> tf.Tensor:
        """Attends from all positions to all positions of a sequence, as `bias` allows.

        Args:
            inputs: `[B, Q, D]`; or `[N, D]`, the tokens alone.
            bias: Added to the scores, broadcast to `[B, H, Q, K]`; has to mask padding.
            training: Whether to apply dropout.
            rows: Where the tokens are, if `inputs` are tokens alone.
            memory: `[B, K, D]`, where other positions than the inputs' are attended to; or tokens
                alone, in the same `rows`.

        Returns:
            Shaped as `inputs`.
        """
        if memory is None:
            queries, keys, values = self.split_heads(self.query_key_value(inputs), 3, rows)
        else:
            (queries,) = self.split_heads(self.query_key_value(inputs, parts=(0, 1)), 1, rows)
            keys, values = self.split_heads(self.query_key_value(memory, parts=(1, 3)), 2, rows)
        return self.merge(self.attend(queries, keys, values, bias, training), rows)

    def continue_from(
        self,
        inputs: tf.Tensor,
        bias: tf.Tensor | None,
        cache: MutableMapping[str, tf.Tensor],
        decode_loop_step: Any,
        training: bool,
    ) -> tf.Tensor:
        """Attends from new positions `[B, Q, D]` to those of a cache and to themselves.

        Args:
            inputs: The new positions.
            bias: Added to the scores, broadcast to `[B, H, Q, K]`.
            cache: Keys and values of the others, see `update_cache`; it is changed.
            decode_loop_step: Place of the new position in a cache of fixed length.
            training: Whether to apply dropout.
        """
        queries, *new = self.split_heads(self.query_key_value(inputs), 3)
        key, value = (tf.transpose(part, [0, 2, 1, 3]) for part in new)  # [B, Q, H, D / H]
        held = update_cache(key, value, cache, decode_loop_step)
        keys, values = (tf.transpose(part, [0, 2, 1, 3]) for part in held)
        return self.merge(self.attend(queries, keys, values, bias, training), None)


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
            **kwargs: As for `SelfAttention`.

        Raises:
            ConfigError: If `num_heads` does not divide `width`.
        """
        super().__init__(num_heads, width, dropout_rate=dropout_rate, use_bias=use_bias, **kwargs)
        self.query = self._project("query")
        self.key_value = self._project("key_value", 2)

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
