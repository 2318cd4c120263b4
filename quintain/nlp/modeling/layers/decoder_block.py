"""One block of the Transformer's decoder.

Shapes:
    B  examples in the batch
    S  source positions
    T  target positions
    D  width of the model
    H  attention heads
    N  tokens of all examples, where padding is left out
"""

from collections.abc import MutableMapping
from typing import Any

import tensorflow as tf
from typing_extensions import override

from quintain.modeling import rematerialization
from quintain.nlp.modeling.layers import (
    attention_cache,
    block_inputs,
    dropout,
    fused_attention,
    packed_rows,
    residual_block,
)


class DecoderBlock(attention_cache.CacheInPlace, residual_block.TransformerBlock):
    """Self-attention, attention to the encoder's output, and a feed-forward part.

    Attention is computed with fused projections, which can also leave padding out.

    Source:
        Vaswani et al., 2017, section 3.1 (https://arxiv.org/abs/1706.03762).
    """

    cross_attention: Any
    cross_attention_norm: Any

    num_inputs: int = 4
    """How many tensors it is called with."""

    @override
    def build(self, input_shape: Any) -> None:
        """Creates the parts, from the shapes of the inputs, or from that of the first alone.

        Raises:
            ConfigError: If the first input has no three dimensions, or the number of heads does not
                divide its width.
        """
        is_list = isinstance(input_shape[0], list | tuple | tf.TensorShape)
        shape = tuple(input_shape[0] if is_list else input_shape)
        memory_shape = tuple(input_shape[1]) if is_list else shape
        block_inputs.check_rank(shape)
        block_inputs.check_heads(self.options.num_heads, shape[-1])
        self._build_attention(shape, memory_shape)
        self.feed_forward = self.build_feed_forward(shape)
        self.self_attention_norm = self.build_norm("self_attention_layer_norm", shape)
        self.cross_attention_norm = self.build_norm("encdec_output_layer_norm", shape)
        self.feed_forward_norm = self.build_norm("output_layer_norm", shape)
        self.dropout = dropout.Dropout(self.options.dropout_rates.output)
        self.built = True

    def _build_attention(self, shape: Any, memory_shape: Any) -> None:
        options = self.list_attention_options(shape[-1])
        self.self_attention = fused_attention.SelfAttention(**options, name="self_attention")
        self.cross_attention = fused_attention.CrossAttention(**options, name="encdec")
        for layer in (self.self_attention, self.cross_attention):
            layer.build(shape)

    @override
    @rematerialization.recomputes
    def call(
        self,
        inputs: Any,
        cache: MutableMapping[str, tf.Tensor] | None = None,
        decode_loop_step: Any = None,
        training: bool | None = None,
        rows: packed_rows.PackedRows | None = None,
        memory_rows: packed_rows.PackedRows | None = None,
    ) -> tuple[tf.Tensor, Any]:
        """Decodes all positions at once, or the next ones with a cache.

        Args:
            inputs: The target `[B, T, D]`; the memory `[B, S, D]`; a mask of the memory
                `[B, T, S]`, 1 where a position may be attended to and 0 where not; likewise one of
                the target, `[B, T, T]`. Each mask may be None, and its `B` and first `T` may be 1.
            cache: `key` and `value` of positions before these; see `attention_cache.update_cache`.
            decode_loop_step: Place of the new position in a cache of fixed length.
            training: Whether to apply dropout.
            rows: Where the tokens are, if the target is tokens alone, `[N, D]`.
            memory_rows: Likewise of the memory.

        Returns:
            The output, shaped as the target; and the cache with the new positions.

        Raises:
            ValueError: If there are fewer inputs, or more.
        """
        if len(inputs) != self.num_inputs:
            raise ValueError(f"inputs: got {len(inputs)} tensors, expected {self.num_inputs}.")
        x, _, _, mask = inputs[:4]
        cache = attention_cache.open_cache(cache)
        norm, next_norm = self.self_attention_norm, self.cross_attention_norm
        output, cache = self._attend_to_itself(
            self.enter(x, norm), mask, cache, decode_loop_step, training, rows
        )
        x, entered = self.go_on(x, output, (norm, next_norm), training)
        output = self._attend_to_memory(entered, inputs, training, rows, memory_rows)
        x, entered = self.go_on(x, output, (next_norm, self.feed_forward_norm), training)
        return self.add_feed_forward(x, training, entered), cache

    def _attend_to_itself(
        self, x: tf.Tensor, mask: Any, cache: Any, step: Any, training: Any, rows: Any
    ) -> tuple[tf.Tensor, Any]:
        bias = self._to_bias(mask)
        if not cache:
            return self.self_attention(x, bias, training=training, rows=rows), cache
        return self.self_attention.continue_from(x, bias, cache, step, bool(training)), cache

    def _attend_to_memory(
        self, x: tf.Tensor, inputs: Any, training: Any, rows: Any, memory_rows: Any
    ) -> tf.Tensor:
        return self.cross_attention(
            x,
            self.cross_attention.read_memory(inputs[1], memory_rows),
            self._to_bias(inputs[2]),
            training=training,
            rows=rows,
        )

    def _to_bias(self, mask: tf.Tensor | None) -> tf.Tensor | None:
        return None if mask is None else fused_attention.to_bias(mask, self.compute_dtype)
