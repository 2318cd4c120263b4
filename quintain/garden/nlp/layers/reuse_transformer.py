"""Encoder block that may reuse the attention weights of an earlier one.

Shapes:
    B  examples in the batch
    Q  positions that are encoded
    K  positions that are attended to
    H  attention heads
    D  width of the model
"""

from typing import Any

import keras
import tensorflow as tf
from typing_extensions import override

from quintain.garden.nlp.attention import reuse_attention
from quintain.modeling import tf_utils
from quintain.nlp.modeling.layers import (
    block_inputs,
    dropout,
    feed_forward,
    layer_arguments,
    residual_block,
)


@keras.saving.register_keras_serializable(package="Text")
class ReuseTransformer(residual_block.ResidualBlock):
    """`TransformerEncoderBlock` with `ReuseMultiHeadAttention`, which also returns its weights.

    Source:
        Bhojanapalli et al., 2021 (https://arxiv.org/abs/2110.06821).
    """

    def __init__(
        self,
        num_attention_heads: int,
        inner_dim: int,
        inner_activation: Any,
        head_size: int | None = None,
        output_range: int | None = None,
        kernel_initializer: Any = "glorot_uniform",
        bias_initializer: Any = "zeros",
        kernel_regularizer: Any = None,
        bias_regularizer: Any = None,
        activity_regularizer: Any = None,
        kernel_constraint: Any = None,
        bias_constraint: Any = None,
        use_bias: bool = True,
        norm_first: bool = False,
        norm_epsilon: float = 1e-12,
        output_dropout: float = 0.0,
        attention_dropout: float = 0.0,
        inner_dropout: float = 0.0,
        attention_initializer: Any = None,
        attention_axes: Any = None,
        reuse_attention: int = 0,
        use_relative_pe: bool = False,
        pe_max_seq_length: int = 512,
        layer_idx: int | None = None,
        max_reuse_layer_idx: int | None = None,
        **kwargs: Any,
    ) -> None:
        last = layer_idx if max_reuse_layer_idx is None else max_reuse_layer_idx
        if layer_idx is not None and last is not None and not 0 < layer_idx <= last:
            reuse_attention = 0
        del last
        given = layer_arguments.LayerArguments(locals())
        super().__init__(norm_first, norm_epsilon, **kwargs)
        self.supports_masking = True
        self.given = given

    @override
    def build(self, input_shape: Any) -> None:
        given = self.given
        shape, _ = block_inputs.read_shapes(input_shape)
        width: Any = shape[-1]
        if given.head_size is None:
            block_inputs.check_heads(given.num_attention_heads, width)
        initializer = given.attention_initializer or given.kernel_initializer
        self.self_attention = reuse_attention.ReuseMultiHeadAttention(
            num_heads=given.num_attention_heads,
            key_dim=given.head_size or width // given.num_attention_heads,
            dropout=given.attention_dropout,
            use_bias=given.use_bias,
            attention_axes=given.attention_axes,
            reuse_attention=given.reuse_attention,
            use_relative_pe=given.use_relative_pe,
            pe_max_seq_length=given.pe_max_seq_length,
            name="self_attention",
            **{**given.for_dense(), "kernel_initializer": tf_utils.clone_initializer(initializer)},
        )
        self.self_attention.build(shape, shape)
        self.feed_forward = feed_forward.FeedForward(
            width,
            given.inner_dim,
            activation=given.inner_activation,
            dropout_rate=given.inner_dropout,
            dense_options=given.for_dense,
        )
        self.feed_forward.build(shape)
        self.self_attention_norm = self.build_norm("self_attention_layer_norm", shape)
        self.feed_forward_norm = self.build_norm("output_layer_norm", shape)
        self.dropout = dropout.Dropout(given.output_dropout)
        self.built = True

    @override
    def call(self, inputs: Any, training: bool | None = None) -> tuple[tf.Tensor, tf.Tensor]:
        """Encodes.

        Args:
            inputs: `x`, `[x, mask]` or `[x, mask, weights]`: `x` `[B, Q, D]`; `mask` `[B, Q, K]`,
                0 where attention is not allowed; `weights` `[B, H, Q, K]` of an earlier block.
            training: Whether to apply dropout.

        Returns:
            `[B, Q, D]`, and the attention's weights `[B, H, Q, K]`.

        Raises:
            ValueError: If weights are needed and not given, or there are more inputs.
        """
        parts = list(inputs) if isinstance(inputs, list | tuple) else [inputs]
        if len(parts) > 3:
            raise ValueError(
                f"inputs: got {len(parts)} tensors, expected one, or [x, mask], or "
                "[x, mask, weights]."
            )
        x, mask, weights = (*parts, None, None)[:3]
        if self.given.reuse_attention and weights is None:
            raise ValueError(
                "reuse_attention_scores cannot be None when reuse_attention != 0: give them as the "
                "third input."
            )
        norm = self.self_attention_norm
        attended = entered = self.enter(x, norm)
        if block_inputs.is_range(self.given.output_range):
            chosen = slice(self.given.output_range)
            x, (entered, mask) = x[:, chosen], block_inputs.choose(entered, mask, chosen)
            weights = None if weights is None else weights[:, :, chosen]
        output, weights = self.self_attention(
            query=entered,
            value=attended,
            attention_mask=mask,
            reuse_attention_scores=weights,
            return_attention_scores=True,
            training=training,
        )
        x = self.leave(x, output, norm, training)
        return self.add_feed_forward(x, training), weights

    @override
    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), **self.given.to_config()}
