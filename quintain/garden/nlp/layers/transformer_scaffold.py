"""Encoder block whose attention and feed-forward part can be of any classes.

Shapes:
    B  examples in the batch
    S  positions
    K  positions that are attended to
    D  width of the model
    N  tokens of all examples, where padding is left out
"""

from collections.abc import Callable, Mapping
from typing import Any, Final

import keras
import tensorflow as tf
from typing_extensions import override

from quintain.config import gin_io
from quintain.garden.nlp.layers import gated_feedforward, util
from quintain.modeling import tf_utils
from quintain.nlp.modeling.layers import (
    block_inputs,
    dropout,
    feed_forward,
    fused_attention,
    layer_arguments,
    packed_rows,
    residual_block,
)

LayerClass = Callable[..., keras.layers.Layer]


_GELU: Final = tf_utils.get_activation("gelu")


@keras.saving.register_keras_serializable(package="Text")
@gin_io.configurable
class TransformerScaffold(residual_block.ResidualBlock):
    """Attention and a feed-forward part, of classes or layers that are given.

    Where they are not, attention is computed with fused projections, which can also leave padding
    out.

    Source:
        Vaswani et al., 2017, section 3.1 (https://arxiv.org/abs/1706.03762), with the normalisation
        after each part, as in BERT, or before.
    """

    def __init__(
        self,
        num_attention_heads: int,
        inner_dim: int = 768,
        inner_activation: Any = _GELU,
        attention_cls: Any = keras.layers.MultiHeadAttention,
        attention_cfg: Mapping[str, Any] | None = None,
        feedforward_cls: Any = None,
        feedforward_cfg: Mapping[str, Any] | None = None,
        dropout_rate: float = 0.0,
        attention_dropout_rate: float = 0.0,
        norm_first: bool = False,
        norm_epsilon: float = 1e-12,
        kernel_initializer: Any = "glorot_uniform",
        bias_initializer: Any = "zeros",
        kernel_regularizer: Any = None,
        bias_regularizer: Any = None,
        activity_regularizer: Any = None,
        kernel_constraint: Any = None,
        bias_constraint: Any = None,
        **kwargs: Any,
    ) -> None:
        inner_dim = kwargs.pop("intermediate_size", inner_dim)
        inner_activation = kwargs.pop("intermediate_activation", inner_activation)
        given = layer_arguments.LayerArguments(locals())
        util.filter_kwargs(kwargs)
        super().__init__(norm_first, norm_epsilon, **kwargs)
        self.given = given
        self.feedforward_block: keras.layers.Layer | None = None

    @property
    def _is_fused(self) -> bool:
        """True if attention is as published, so that it is computed with fused projections."""
        given = self.given
        is_default = given.attention_cls is keras.layers.MultiHeadAttention
        return is_default and given.are_unset(
            "attention_cfg",
            "kernel_regularizer",
            "bias_regularizer",
            "activity_regularizer",
            "kernel_constraint",
            "bias_constraint",
        )

    @property
    def takes_rows(self) -> bool:
        """True if the parts can compute tokens alone, as the package's own can."""
        feedforward = self.given.feedforward_cls
        has_own = feedforward in (None, gated_feedforward.GatedFeedforward)
        return self._is_fused and (
            has_own or isinstance(feedforward, gated_feedforward.GatedFeedforward)
        )

    @override
    def build(self, input_shape: Any) -> None:
        """Creates the parts.

        Args:
            input_shape: Shape of the input, or of the list of inputs.

        Raises:
            ConfigError: If the input has no three dimensions, or the number of heads does not
                divide its width.
        """
        given = self.given
        shape, key_value_shape = block_inputs.read_shapes(input_shape)
        width: Any = shape[-1]
        block_inputs.check_rank(shape)
        block_inputs.check_heads(given.num_attention_heads, width)
        self.self_attention = self._build_attention(shape, key_value_shape)
        self.self_attention_norm = self.build_norm("self_attention_layer_norm", shape)
        self.dropout = dropout.Dropout(given.dropout_rate)
        if given.feedforward_cls is None:
            self.feed_forward = feed_forward.FeedForward(
                width,
                given.inner_dim,
                activation=given.inner_activation,
                dense_options=given.for_dense,
            )
            self.feed_forward.build(shape)
        else:
            self.feedforward_block = self._build_feedforward()
            if block_inputs.has_to_be_built(self.feedforward_block):
                self.feedforward_block(keras.KerasTensor(shape))
        self.feed_forward_norm = None
        if self.norm_first or given.feedforward_cls is None:
            self.feed_forward_norm = self.build_norm("output_layer_norm", shape)
        self.built = True

    def _build_attention(self, shape: Any, key_value_shape: Any) -> Any:
        given = self.given
        if self._is_fused and shape[-1] == key_value_shape[-1]:
            layer = fused_attention.SelfAttention(
                given.num_attention_heads,
                shape[-1],
                dropout_rate=given.attention_dropout_rate,
                use_bias=True,
                kernel_initializer=given.kernel_initializer,
                bias_initializer=given.bias_initializer,
                name="self_attention",
            )
            layer.build(shape)
            return layer
        default = {
            **given.for_dense(),
            "num_heads": given.num_attention_heads,
            "key_dim": shape[-1] // given.num_attention_heads,
            "dropout": given.attention_dropout_rate,
            "name": "self_attention",
        }
        layer = _build(given.attention_cls, given.attention_cfg, default)
        block_inputs.build_attention(layer, shape, key_value_shape)
        return layer

    def _build_feedforward(self) -> keras.layers.Layer:
        given = self.given
        default = {
            **given.for_dense(),
            "inner_dim": given.inner_dim,
            "inner_activation": given.inner_activation,
            "intermediate_size": given.inner_dim,
            "intermediate_activation": given.inner_activation,
            "dropout": given.dropout_rate,
            "name": "feedforward",
        }
        return _build(given.feedforward_cls, given.feedforward_cfg, default)

    @override
    def call(
        self,
        inputs: Any,
        training: bool | None = None,
        rows: packed_rows.PackedRows | None = None,
    ) -> tf.Tensor:
        """Encodes.

        Args:
            inputs: `x`, `[x, mask]` or `[x, key_value, mask]`: `x` `[B, S, D]` is encoded;
                `key_value` `[B, K, D]` is attended to, `x` where there is none; `mask` `[B, S, K]`
                is 1 where that is allowed and 0 where not, and its `S` may be 1.
            training: Whether to apply dropout.
            rows: Where the tokens are, if `x` are tokens alone, `[N, D]`.

        Returns:
            Shaped as `x`.
        """
        return self.encode(inputs, None, training, rows)

    def encode(
        self,
        inputs: Any,
        chosen: slice | None,
        training: bool | None,
        rows: packed_rows.PackedRows | None = None,
    ) -> tf.Tensor:
        """Encodes the positions that are chosen, None for all; other arguments as for `call`."""
        x, key_value, mask = block_inputs.read_inputs(inputs)
        norm = self.self_attention_norm
        entered = self.enter(x, norm)
        attended = x if key_value is None else key_value
        if chosen is not None:
            x, (entered, mask) = x[:, chosen], block_inputs.choose(entered, mask, chosen)
        output = self._attend(entered, attended, mask, training, rows)
        x = self.leave(x, output, norm, training)
        block = self.feedforward_block
        if block is None:
            return self.add_feed_forward(x, training)
        if not self.norm_first:
            return block(x)
        output = block(self.feed_forward_norm(x))
        return x + tf.cast(output, x.dtype)

    def _attend(self, queries: Any, attended: Any, mask: Any, training: Any, rows: Any) -> Any:
        layer = self.self_attention
        if not isinstance(layer, fused_attention.SelfAttention):
            # Keras tells layers inside of others whether they train; not all take `training`.
            return layer(query=queries, value=attended, attention_mask=mask)
        bias = None if mask is None else fused_attention.to_bias(mask, self.compute_dtype)
        memory = None if attended is queries else attended
        return layer(queries, bias, training=training, rows=rows, memory=memory)

    @override
    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), **self.given.to_config()}


def _build(layer_or_class: Any, config: Mapping[str, Any] | None, default: dict[str, Any]) -> Any:
    """Returns a layer that is given, or made of a class, or described by a config of Keras."""
    if isinstance(layer_or_class, dict):
        layer_or_class = keras.saving.deserialize_keras_object(layer_or_class)
    if isinstance(layer_or_class, keras.layers.Layer):
        return layer_or_class
    return layer_or_class(**(default if config is None else config))
