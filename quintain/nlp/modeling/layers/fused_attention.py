"""Multi-head attention with fused projections.

Shapes:
    B  examples in the batch
    Q  query positions
    K  key positions
    H  attention heads
    D  width of the model
    N  tokens of all examples, where padding is left out
"""

import functools
from collections.abc import Callable, MutableMapping
from typing import Any, ClassVar

import keras
import tensorflow as tf

from quintain.kernels import attention as kernel
from quintain.kernels import attention_weights
from quintain.modeling import tf_utils
from quintain.nlp.modeling.layers import (
    attention_cache,
    block_inputs,
    dropout,
    layer_arguments,
    own_classes,
    packed_rows,
    projection,
)


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


def split_heads(
    x: tf.Tensor, positions: tuple[Any, Any], num_heads: int, num_parts: int = 1
) -> list[tf.Tensor]:
    """Turns `[B, Q, num_parts * D]` into parts `[B, H, Q, D / H]`.

    Args:
        x: What is split; it may be `[B * Q, num_parts * D]` as well.
        positions: B, or -1 to have it found, and Q.
        num_heads: H.
        num_parts: Parts that lie side by side.
    """
    width = x.shape[-1] // num_parts // num_heads
    parts = tf.reshape(x, [*positions, num_parts, num_heads, width])
    return tf.unstack(tf.transpose(parts, [2, 0, 3, 1, 4]))


def mix(
    queries: tf.Tensor,
    keys: tf.Tensor,
    values: tf.Tensor,
    bias: tf.Tensor | None,
    drop: Callable[[tf.Tensor], tf.Tensor] | None = None,
) -> tf.Tensor:
    """Mixes `values` `[B, H, K, D / H]` for `queries` `[B, H, Q, D / H]`, shaped as those.

    The weights are the softmax of the scaled products of queries and keys, to which `bias` is
    added in its own type; `drop` drops some of them.
    """
    scale = queries.shape[-1] ** -0.5
    scores = tf.matmul(queries * tf.cast(scale, queries.dtype), keys, transpose_b=True)
    if bias is not None:
        scores = tf.cast(scores, bias.dtype) + bias
    weights = tf.cast(tf.nn.softmax(tf.cast(scores, tf.float32)), values.dtype)  # [B, H, Q, K]
    return tf.matmul(weights if drop is None else drop(weights), values)


class _Attention(keras.layers.Layer):
    """Base class of self-attention and cross-attention.

    `num_heads` must divide `width`, that of inputs and outputs. `kernel_initializer` draws kernels
    split by heads, as Keras' attention does; None draws whole matrices by Glorot.
    """

    projections: ClassVar[dict[str, int]]
    """Projections of the inputs, and of how many parts each is."""

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
        for name, num_parts in self.projections.items():
            setattr(self, name, self._project(name, num_parts))

    def build(self, input_shape: Any) -> None:
        """Builds the projections."""
        for name in (*self.projections, "output_projection"):
            getattr(self, name).build(input_shape)

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
        return split_heads(x, (shape[0], shape[1]), self.num_heads, num_parts)

    def attend(
        self,
        queries: tf.Tensor,
        keys: tf.Tensor,
        values: tf.Tensor,
        bias: tf.Tensor | None,
        training: bool,
    ) -> tf.Tensor:
        """Mixes `values` by the softmax of the scaled products of `queries` and `keys`; see `mix`.

        `bias` is broadcast to `[B, H, Q, K]`, and may be learnt.
        """
        is_known = bias is None or bias.shape.rank == 4
        is_own = own_classes.is_changed(self.dropout, dropout.Dropout)
        if is_known and not is_own and dropout.can_be_native(queries):
            weights = attention_weights.weigh(
                tf.matmul(queries, keys, transpose_b=True),
                None if bias is None else tf.cast(bias, queries.dtype),
                scale=(self.width // self.num_heads) ** -0.5,
                draw=self.dropout.draw(training),
            )
            return tf.matmul(weights, values)
        drop = functools.partial(self.dropout, training=training)
        return mix(queries, keys, values, bias, drop)

    def attend_at_once(
        self,
        queries: tf.Tensor,
        memory: tf.Tensor | None,
        bias: tf.Tensor | None,
        training: bool,
        rows: packed_rows.PackedRows | None,
    ) -> tf.Tensor:
        """Attends by one native operation, without splitting heads, and projects the outputs.

        Args:
            queries: `[B, Q, D]`, or `[B, Q, 3 * D]` with keys and values where `memory` is None;
                or such `rows`.
            memory: `[B, K, 2 * D]`, keys beside values; None for none.
            bias: As in `attend`.
            training: Whether to drop weights.
            rows: Where the tokens are, if `queries` are tokens alone.
        """
        mixed = kernel.attend(
            queries if rows is None else rows.spread(queries),
            memory,
            None if bias is None else tf.cast(bias, queries.dtype),
            num_heads=self.num_heads,
            scale=(self.width // self.num_heads) ** -0.5,
            draw=self.dropout.draw(training),
        )  # [B, Q, D]
        return self.output_projection(mixed if rows is None else rows.pack(mixed))

    def _is_at_once(self, x: tf.Tensor, bias: tf.Tensor | None = None) -> bool:
        """Returns whether to `attend_at_once`: not where a class of its own attends otherwise."""
        changed = (self.attend, self.split_heads, self.merge)
        is_own = any(
            getattr(method, "__func__", None) is not getattr(_Attention, method.__name__)
            for method in changed
        )
        is_own = is_own or own_classes.is_changed(self.dropout, dropout.Dropout)
        is_known = bias is None or bias.shape.rank is not None
        return is_known and not is_own and kernel.can_attend(x)

    def merge(self, mixed: tf.Tensor, rows: packed_rows.PackedRows | None) -> tf.Tensor:
        """Projects the heads' outputs `[B, H, Q, D / H]`, side by side, to `[B, Q, D]`."""
        shape = tf.shape(mixed)
        merged = tf.reshape(tf.transpose(mixed, [0, 2, 1, 3]), [shape[0], shape[2], self.width])
        return self.output_projection(merged if rows is None else rows.pack(merged))


class SelfAttention(_Attention):
    """Attention of a sequence to itself, or of its beginning to all of it."""

    projections: ClassVar = {"query_key_value": 3}
    query_key_value: projection.Projection

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
            joint = self.query_key_value(inputs)
            if self._is_at_once(joint, bias):
                return self.attend_at_once(joint, None, bias, training, rows)
            queries, keys, values = self.split_heads(joint, 3, rows)
        else:
            queries = self.query_key_value(inputs, parts=(0, 1))
            joint = self.query_key_value(memory, parts=(1, 3))
            if self._is_at_once(queries, bias):
                joint = joint if rows is None else rows.spread(joint)
                return self.attend_at_once(queries, joint, bias, training, rows)
            (queries,) = self.split_heads(queries, 1, rows)
            keys, values = self.split_heads(joint, 2, rows)
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

        The cache is changed; see `attention_cache.update_cache`.
        """
        queries, *new = self.split_heads(self.query_key_value(inputs), 3)
        key, value = (tf.transpose(part, [0, 2, 1, 3]) for part in new)  # [B, Q, H, D / H]
        held = attention_cache.update_cache(key, value, cache, decode_loop_step)
        keys, values = (tf.transpose(part, [0, 2, 1, 3]) for part in held)
        return self.merge(self.attend(queries, keys, values, bias, training), None)


class CrossAttention(_Attention):
    """Attention of one sequence to another, the memory."""

    projections: ClassVar = {"query": 1, "key_value": 2}
    query: projection.Projection
    key_value: projection.Projection

    def read_memory(
        self, memory: tf.Tensor, rows: packed_rows.PackedRows | None = None
    ) -> tuple[tf.Tensor, tf.Tensor] | tf.Tensor:
        """Returns the keys and values of a memory `[B, K, D]`, `[B, H, K, D / H]` each.

        In training steps with native kernels that is `[B, K, 2 * D]`, both side by side, unless a
        class of its own has another `call`. The memory may be tokens alone, the `rows` `[N, D]`.
        """
        joint = self.key_value(memory)
        # A `call` of a class of its own takes keys and values apart.
        if type(self).call is CrossAttention.call and self._is_at_once(joint):
            return joint if rows is None else rows.spread(joint)
        keys, values = self.split_heads(joint, 2, rows)
        return keys, values

    def call(
        self,
        inputs: tf.Tensor,
        memory: tuple[tf.Tensor, tf.Tensor] | tf.Tensor,
        bias: tf.Tensor | None = None,
        training: bool = False,
        rows: packed_rows.PackedRows | None = None,
    ) -> tf.Tensor:
        """Attends from `[B, Q, D]`, or the `rows` `[N, D]`, to what `read_memory` returned."""
        queries = self.query(inputs)
        if tf.is_tensor(memory):
            if self._is_at_once(queries, bias):
                return self.attend_at_once(queries, memory, bias, training, rows)
            memory = self.split_heads(memory, 2)
        keys, values = memory
        (queries,) = self.split_heads(queries, rows=rows)
        return self.merge(self.attend(queries, keys, values, bias, training), rows)
