"""One block of the Transformer's encoder.

Shapes:
    B  examples in the batch
    Q  positions that are encoded
    K  positions that are attended to
    H  attention heads
    D  width of the model
    N  tokens of all examples, where padding is left out
"""

from typing import Any

import tensorflow as tf
from typing_extensions import override

from quintain.modeling import rematerialization, tf_utils
from quintain.nlp.modeling.layers import (
    block_inputs,
    dropout,
    fused_attention,
    packed_rows,
    residual_block,
)


class EncoderBlock(residual_block.TransformerBlock):
    """Self-attention and a feed-forward part.

    Attention is computed with fused projections, which can also leave padding out.

    Source:
        Vaswani et al., 2017, section 3.1 (https://arxiv.org/abs/1706.03762).
    """

    output_range: int | None = None
    """First positions that are encoded, unless a call says otherwise; None for all."""

    output_width: int | None = None
    """Width of the output; None for the input's."""

    key_value_norm: Any = None
    """Normalisation of what is attended to, where it has its own."""

    use_query_residual: bool = True
    """Whether attention's output is added to its input."""

    @override
    def build(self, input_shape: Any) -> None:
        """Creates the parts, from the shape of the input or of the list of inputs."""
        shape, key_value_shape = block_inputs.read_shapes(input_shape)
        inner_shape = (*shape[:-1], self.output_width or shape[-1])
        self.self_attention = self._build_attention(shape, key_value_shape)
        self.feed_forward = self.build_feed_forward(inner_shape)
        norm_shape = shape if self.norm_first else inner_shape
        self._build_attention_norms(norm_shape, key_value_shape)
        self.feed_forward_norm = self.build_norm("output_layer_norm", inner_shape)
        self.dropout = dropout.Dropout(self.options.dropout_rates.output)
        self.built = True

    def _build_attention(self, shape: Any, key_value_shape: Any) -> Any:
        options = self.list_attention_options(shape[-1])
        options["kernel_initializer"] = tf_utils.clone_initializer(options["kernel_initializer"])
        layer = fused_attention.SelfAttention(**options, name="self_attention")
        layer.build(shape)
        return layer

    def _build_attention_norms(self, shape: Any, key_value_shape: Any) -> None:
        self.self_attention_norm = self.build_norm("self_attention_layer_norm", shape)

    @override
    @rematerialization.recomputes
    def call(
        self,
        inputs: Any,
        output_range: Any = None,
        training: bool | None = None,
        rows: packed_rows.PackedRows | None = None,
    ) -> Any:
        """Encodes.

        Args:
            inputs: `x`, `[x, mask]` or `[x, key_value, mask]`: `x` `[B, Q, D]` is encoded;
                `key_value` `[B, K, D]` is attended to, `x` where there is none; `mask` `[B, Q, K]`
                is 1 where that is allowed and 0 where not, and its `Q` may be 1.
            output_range: How many positions, from the first, are encoded; 0 for all, None for
                the block's own `output_range`.
            training: Whether to apply dropout.
            rows: Where the tokens are, if `x` are tokens alone, `[N, D]`.

        Returns:
            `[B, Q, D]`; or that and the attention's weights `[B, H, Q, K]`, if they are asked for.
        """
        output_range = self.output_range if output_range is None else output_range
        chosen = slice(output_range) if block_inputs.is_range(output_range) else None
        return self.encode(inputs, chosen, training, rows)

    def encode(
        self,
        inputs: Any,
        chosen: slice | None,
        training: bool | None,
        rows: packed_rows.PackedRows | None = None,
    ) -> Any:
        """Encodes the positions that are chosen, None for all; other arguments as for `call`."""
        x, key_value, mask = block_inputs.read_inputs(inputs)
        norm = self.self_attention_norm
        entered = self.enter(x, norm)
        attended = (
            entered if key_value is None else self.enter(key_value, self.key_value_norm or norm)
        )
        if chosen is not None:
            x, (entered, mask) = x[:, chosen], block_inputs.choose(entered, mask, chosen)
        output, scores = self._attend(entered, attended, mask, training, rows)
        x, entered = self.go_on(
            x if self.use_query_residual else None,
            output,
            (norm, self.feed_forward_norm),
            training,
        )
        x = self.add_feed_forward(x, training, entered)
        return x if scores is None else (x, scores)

    def _attend(
        self,
        queries: tf.Tensor,
        attended: tf.Tensor,
        mask: tf.Tensor | None,
        training: bool | None,
        rows: packed_rows.PackedRows | None,
    ) -> tuple[tf.Tensor, Any]:
        bias = None if mask is None else fused_attention.to_bias(mask, self.compute_dtype)
        memory = None if attended is queries else attended
        output = self.self_attention(queries, bias, training=training, rows=rows, memory=memory)
        return output, None
