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

import keras
import tensorflow as tf
from typing_extensions import override

from quintain.modeling import rematerialization, tf_utils
from quintain.nlp.modeling.layers import (
    attention,
    attention_cache,
    block_inputs,
    dropout,
    feed_forward,
    layer_arguments,
    multi_channel_attention,
    packed_rows,
    residual_block,
)


@keras.saving.register_keras_serializable(package="Text")
class TransformerDecoderBlock(attention_cache.CacheInPlace, residual_block.ResidualBlock):
    """Self-attention, attention to the encoder's output, and a feed-forward part.

    Attention that is as published is computed with fused projections, which can also leave padding
    out; with any other option it is of the classes given, or Keras' own.

    Source:
        Vaswani et al., 2017, section 3.1 (https://arxiv.org/abs/1706.03762).
    """

    cross_attention: Any
    cross_attention_norm: Any

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
        """Stores the options.

        Args:
            num_attention_heads: Attention heads; must divide the width.
            intermediate_size: Width inside the feed-forward part.
            intermediate_activation: Keras' name of its activation, or a function.
            dropout_rate: Share of each part's output that training drops.
            attention_dropout_rate: Share of the attention weights that training drops.
            multi_channel_cross_attention: Whether the memory has several sources, mixed by weights
                that are the fifth input.
            kernel_initializer: Keras' initializer of kernels.
            bias_initializer: Likewise of biases.
            kernel_regularizer: Keras' regularizer of kernels.
            bias_regularizer: Likewise of biases.
            activity_regularizer: Likewise of the outputs of dense layers.
            kernel_constraint: Keras' constraint on kernels.
            bias_constraint: Likewise on biases.
            use_bias: Whether the projections of attention have biases.
            norm_first: Whether inputs of the parts are normalised, instead of outputs.
            norm_epsilon: Added to the variance in normalisation.
            intermediate_dropout: Share of values inside the feed-forward part that training drops.
            attention_initializer: Initializer of attention's kernels; None for the others'.
            self_attention_cls: Builds self-attention in place of `CachedAttention`.
            cross_attention_cls: Builds attention to the memory in place of `MultiHeadAttention`.
            **kwargs: Arguments of a Keras layer.
        """
        given = layer_arguments.LayerArguments(locals())
        super().__init__(**kwargs)
        self.given = given
        self.num_attention_heads = num_attention_heads
        self.intermediate_size = intermediate_size
        self.intermediate_activation = keras.activations.get(intermediate_activation)
        self.dropout_rate = dropout_rate
        self.attention_dropout_rate = attention_dropout_rate
        self.multi_channel_cross_attention = multi_channel_cross_attention
        default = (
            multi_channel_attention.MultiChannelAttention
            if multi_channel_cross_attention
            else attention.MultiHeadAttention
        )
        self._self_attention_cls = given.self_attention_cls or attention.CachedAttention
        self._cross_attention_cls = given.cross_attention_cls or default

    @property
    def takes_rows(self) -> bool:
        """True if the block can compute tokens alone: where attention is computed fused."""
        return (
            self._self_attention_cls is attention.CachedAttention
            and self._cross_attention_cls is attention.MultiHeadAttention
            and self.given.are_unset(
                "kernel_regularizer",
                "bias_regularizer",
                "activity_regularizer",
                "kernel_constraint",
                "bias_constraint",
            )
        )

    @override
    def build(self, input_shape: Any) -> None:
        """Creates the parts.

        Args:
            input_shape: Shapes of the inputs; or that of the first, where the memory's is the same.

        Raises:
            ConfigError: If the first input has no three dimensions, or the number of heads does not
                divide its width.
        """
        given = self.given
        is_list = isinstance(input_shape[0], list | tuple | tf.TensorShape)
        shape = tuple(input_shape[0] if is_list else input_shape)
        memory_shape = tuple(input_shape[1]) if is_list else shape
        block_inputs.check_rank(shape)
        width = shape[-1]
        block_inputs.check_heads(self.num_attention_heads, width)
        self.attention_head_size = width // self.num_attention_heads
        self._build_attention(shape, memory_shape)
        self.feed_forward = feed_forward.FeedForward(
            width,
            given.intermediate_size,
            activation=given.intermediate_activation,
            dropout_rate=given.intermediate_dropout,
            dense_options=given.for_dense,
        )
        self.feed_forward.build(shape)
        self.self_attention_norm = self.build_norm("self_attention_layer_norm", shape)
        self.cross_attention_norm = self.build_norm("encdec_output_layer_norm", shape)
        self.feed_forward_norm = self.build_norm("output_layer_norm", shape)
        self.dropout = dropout.Dropout(given.dropout_rate)
        self.built = True

    def _build_attention(self, shape: Any, memory_shape: Any) -> None:
        given = self.given
        initializer = given.attention_initializer or given.kernel_initializer
        is_fused = self.takes_rows and memory_shape[-1] == shape[-1]
        if is_fused:
            options = {
                "num_heads": self.num_attention_heads,
                "width": shape[-1],
                "dropout_rate": given.attention_dropout_rate,
                "use_bias": given.use_bias,
                "bias_initializer": given.bias_initializer,
                "kernel_initializer": initializer,
            }
            self.self_attention = attention.SelfAttention(**options, name="self_attention")
            self.cross_attention = attention.CrossAttention(**options, name="encdec")
            for layer in (self.self_attention, self.cross_attention):
                layer.build(shape)
            return
        options = {
            "num_heads": self.num_attention_heads,
            "key_dim": self.attention_head_size,
            "dropout": given.attention_dropout_rate,
            "use_bias": given.use_bias,
        }

        def build_dense() -> dict[str, Any]:
            return {
                **given.for_dense(),
                "kernel_initializer": tf_utils.clone_initializer(initializer),
            }

        self.self_attention = self._self_attention_cls(
            **options, **build_dense(), name="self_attention"
        )
        self.cross_attention = self._cross_attention_cls(
            **options, **build_dense(), output_shape=shape[-1], name="encdec"
        )
        block_inputs.build_attention(self.self_attention, shape, shape)
        block_inputs.build_attention(self.cross_attention, shape, memory_shape)

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
                With `multi_channel_cross_attention` a fifth, see `MultiChannelAttention`.
            cache: Keys and values of positions before these: `key` and `value`, each
                `[B, K, H, D / H]`; it is changed. None for no cache.
            decode_loop_step: Place of the new position in a cache of fixed length.
            training: Whether to apply dropout.
            rows: Where the tokens are, if the target is tokens alone, `[N, D]`.
            memory_rows: Likewise of the memory.

        Returns:
            The output, shaped as the target; and the cache with the new positions.

        Raises:
            ValueError: If there are fewer inputs, or more.
        """
        expected = 5 if self.multi_channel_cross_attention else 4
        if len(inputs) != expected:
            raise ValueError(f"inputs: got {len(inputs)} tensors, expected {expected}.")
        x, memory, memory_mask, mask = inputs[:4]
        cache = attention_cache.open_cache(cache)
        norm = self.self_attention_norm
        output, cache = self._attend_to_itself(
            self.enter(x, norm), mask, cache, decode_loop_step, training, rows
        )
        next_norm = self.cross_attention_norm
        x, entered = self.go_on(x, output, (norm, next_norm), training)
        if isinstance(self.cross_attention, attention.CrossAttention):
            output = self.cross_attention(
                entered,
                self.cross_attention.read_memory(memory, memory_rows),
                self._to_bias(memory_mask),
                training=training,
                rows=rows,
            )
        else:
            more = {"context_attention_weights": inputs[4]} if expected == 5 else {}
            output = self.cross_attention(
                query=entered, value=memory, attention_mask=memory_mask, **more
            )
        x, entered = self.go_on(x, output, (next_norm, self.feed_forward_norm), training)
        return self.add_feed_forward(x, training, entered), cache

    def _attend_to_itself(
        self, x: tf.Tensor, mask: Any, cache: Any, step: Any, training: Any, rows: Any
    ) -> tuple[tf.Tensor, Any]:
        if isinstance(self.self_attention, attention.SelfAttention):
            bias = self._to_bias(mask)
            if not cache:
                return self.self_attention(x, bias, training=training, rows=rows), cache
            output = self.self_attention.continue_from(x, bias, cache, step, bool(training))
            return output, cache
        return self.self_attention(
            query=x,
            value=x,
            attention_mask=mask,
            cache=cache,
            decode_loop_step=step,
        )

    def _to_bias(self, mask: tf.Tensor | None) -> tf.Tensor | None:
        return None if mask is None else attention.to_bias(mask, self.compute_dtype)

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
