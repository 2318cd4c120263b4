"""The block of a decoder with all options of the Model Garden."""

from typing import Any

import keras
import tensorflow as tf
from typing_extensions import override

from quintain.garden.nlp.attention import cached_attention, multi_channel_attention
from quintain.modeling import tf_utils
from quintain.nlp.modeling import activations
from quintain.nlp.modeling.layers import (
    block_inputs,
    decoder_block,
    fused_attention,
    layer_arguments,
    residual_block,
)


@keras.saving.register_keras_serializable(package="Text")
class TransformerDecoderBlock(decoder_block.DecoderBlock):
    """Self-attention, attention to the encoder's output, and a feed-forward part.

    Attention that is as published is computed with fused projections, which can also leave padding
    out; with any other option it is of the classes given, or Keras' own.

    Source:
        Vaswani et al., 2017, section 3.1 (https://arxiv.org/abs/1706.03762).
    """

    def __init__(
        self,
        num_attention_heads: int,
        intermediate_size: int,
        intermediate_activation: Any,
        dropout_rate: float = 0.0,
        attention_dropout_rate: float = 0.0,
        multi_channel_cross_attention: bool = False,
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
        intermediate_dropout: float = 0.0,
        attention_initializer: Any = None,
        self_attention_cls: Any = None,
        cross_attention_cls: Any = None,
        **kwargs: Any,
    ) -> None:
        given = layer_arguments.LayerArguments(locals())
        options = residual_block.BlockOptions(
            num_heads=num_attention_heads,
            inner_width=intermediate_size,
            activation=intermediate_activation,
            dropout_rates=residual_block.DropoutRates(
                dropout_rate, attention_dropout_rate, intermediate_dropout
            ),
            initializers=residual_block.Initializers(
                given.kernel_initializer, given.bias_initializer, given.attention_initializer
            ),
            use_bias=use_bias,
            norm_first=norm_first,
            norm_epsilon=norm_epsilon,
        )
        super().__init__(options, **kwargs)
        self.given = given
        self.num_attention_heads = num_attention_heads
        self.intermediate_size = intermediate_size
        self.intermediate_activation = activations.get(intermediate_activation)
        self.dropout_rate = dropout_rate
        self.attention_dropout_rate = attention_dropout_rate
        self.multi_channel_cross_attention = multi_channel_cross_attention
        default = (
            multi_channel_attention.MultiChannelAttention
            if multi_channel_cross_attention
            else keras.layers.MultiHeadAttention
        )
        self.num_inputs = 5 if multi_channel_cross_attention else 4
        self._self_attention_cls = given.self_attention_cls or cached_attention.CachedAttention
        self._cross_attention_cls = given.cross_attention_cls or default

    @property
    @override
    def takes_rows(self) -> bool:
        return (
            self._self_attention_cls is cached_attention.CachedAttention
            and self._cross_attention_cls is keras.layers.MultiHeadAttention
            and self.given.are_unset(
                "kernel_regularizer",
                "bias_regularizer",
                "activity_regularizer",
                "kernel_constraint",
                "bias_constraint",
            )
        )

    @override
    def list_dense_options(self) -> dict[str, Any]:
        return self.given.for_dense()

    @override
    def _build_attention(self, shape: Any, memory_shape: Any) -> None:
        given, width = self.given, shape[-1]
        self.attention_head_size = width // self.num_attention_heads
        if self.takes_rows and memory_shape[-1] == width:
            super()._build_attention(shape, memory_shape)
            return

        def list_options() -> dict[str, Any]:
            initializer = given.attention_initializer or given.kernel_initializer
            return self.list_dense_options() | {
                "kernel_initializer": tf_utils.clone_initializer(initializer),
                "num_heads": self.num_attention_heads,
                "key_dim": self.attention_head_size,
                "dropout": given.attention_dropout_rate,
                "use_bias": given.use_bias,
            }

        self.self_attention = self._self_attention_cls(**list_options(), name="self_attention")
        self.cross_attention = self._cross_attention_cls(
            **list_options(), output_shape=width, name="encdec"
        )
        block_inputs.build_attention(self.self_attention, shape, shape)
        block_inputs.build_attention(self.cross_attention, shape, memory_shape)

    @override
    def _attend_to_itself(
        self, x: tf.Tensor, mask: Any, cache: Any, step: Any, training: Any, rows: Any
    ) -> tuple[tf.Tensor, Any]:
        layer = self.self_attention
        if isinstance(layer, fused_attention.SelfAttention):
            return super()._attend_to_itself(x, mask, cache, step, training, rows)
        return layer(query=x, value=x, attention_mask=mask, cache=cache, decode_loop_step=step)

    @override
    def _attend_to_memory(
        self, x: tf.Tensor, inputs: Any, training: Any, rows: Any, memory_rows: Any
    ) -> tf.Tensor:
        if isinstance(self.cross_attention, fused_attention.CrossAttention):
            return super()._attend_to_memory(x, inputs, training, rows, memory_rows)
        more = {"context_attention_weights": inputs[4]} if self.num_inputs == 5 else {}
        return self.cross_attention(query=x, value=inputs[1], attention_mask=inputs[2], **more)

    def common_layers_with_encoder(self) -> list[keras.layers.Layer]:
        """Returns the layers that a block of an encoder has as well."""
        return [
            self.self_attention,
            self.self_attention_norm,
            self.feed_forward.expand,
            self.feed_forward.contract,
            self.feed_forward_norm,
        ]

    @property
    def encdec_attention(self) -> keras.layers.Layer:
        """The attention to the memory."""
        return self.cross_attention

    @property
    def self_attention_layer_norm(self) -> keras.layers.Layer:
        """The normalisation of self-attention."""
        return self.self_attention_norm

    @property
    def encdec_attention_layer_norm(self) -> keras.layers.Layer:
        """The normalisation of the attention to the memory."""
        return self.cross_attention_norm

    @property
    def intermediate_dense(self) -> keras.layers.Layer:
        """The first dense layer of the feed-forward part."""
        return self.feed_forward.expand

    @property
    def output_dense(self) -> keras.layers.Layer:
        """The second dense layer of the feed-forward part."""
        return self.feed_forward.contract

    @property
    def output_layer_norm(self) -> keras.layers.Layer:
        """The normalisation of the feed-forward part."""
        return self.feed_forward_norm

    @override
    def get_config(self) -> dict[str, Any]:
        return {
            **super().get_config(),
            **self.given.to_config(),
        }
