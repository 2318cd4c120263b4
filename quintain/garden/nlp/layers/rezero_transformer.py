"""ReZero encoder block, whose residual branches begin at zero.

Shapes:
    B  examples in the batch
    Q  positions that are encoded
    K  positions that are attended to
    D  width of the model
"""

from typing import Any, Final

import keras
import tensorflow as tf
from typing_extensions import override

from quintain import errors
from quintain.config import gin_io
from quintain.garden.nlp.attention import block_sparse_attention, multi_query_attention
from quintain.garden.nlp.layers import util
from quintain.modeling import tf_utils
from quintain.nlp.modeling.layers import (
    block_inputs,
    dropout,
    feed_forward,
    layer_arguments,
)
from quintain.nlp.modeling.layers.layer_normalization import LayerNormalization

_GELU: Final = tf_utils.get_activation("gelu")


@keras.saving.register_keras_serializable(package="Text")
@gin_io.configurable
class ReZeroTransformer(keras.layers.Layer):
    """`x + a * f(x)` for attention and the feed-forward part, `a` being learnt and 0 at first.

    Source:
        Bachlechner et al., 2021 (https://arxiv.org/abs/2003.04887).
    """

    def __init__(
        self,
        num_attention_heads: int,
        inner_dim: int = 768,
        inner_activation: Any = _GELU,
        dropout_rate: float = 0.0,
        attention_dropout_rate: float = 0.0,
        output_range: int | None = None,
        kernel_initializer: Any = "glorot_uniform",
        bias_initializer: Any = "zeros",
        kernel_regularizer: Any = None,
        bias_regularizer: Any = None,
        activity_regularizer: Any = None,
        kernel_constraint: Any = None,
        bias_constraint: Any = None,
        use_layer_norm: bool = False,
        share_rezero: bool = True,
        num_kv_heads: int | None = None,
        src_block_size: int | None = None,
        tgt_block_size: int | None = None,
        linformer_dim: int | None = None,
        linformer_shared_kv_projection: bool = True,
        use_sigmoid_attn: bool = False,
        sigmoid_attn_bias: float | None = None,
        **kwargs: Any,
    ) -> None:
        """Checks the options.

        Raises:
            ConfigError: If an option is asked for that is not there.
        """
        attention_dropout_rate = kwargs.pop("attention_dropout", attention_dropout_rate)
        dropout_rate = kwargs.pop("output_dropout", dropout_rate)
        inner_dim = kwargs.pop("intermediate_size", inner_dim)
        inner_activation = kwargs.pop("intermediate_activation", inner_activation)
        given = layer_arguments.LayerArguments(locals())
        util.filter_kwargs(kwargs)
        super().__init__(**kwargs)
        for name in ("linformer_dim", "use_sigmoid_attn"):
            if getattr(given, name):
                raise errors.ConfigError(
                    f"{name}: got {getattr(given, name)!r}, which a ReZero Transformer does not "
                    "support; leave it out."
                )
        if None not in (num_kv_heads, src_block_size):
            raise errors.ConfigError(
                f"num_kv_heads: got {num_kv_heads} with src_block_size={src_block_size}; only one "
                "of them can be given."
            )
        self._given = given

    @override
    def build(self, input_shape: Any) -> None:
        given = self._given
        shape, key_value_shape = block_inputs.read_shapes(input_shape)
        width: Any = shape[-1]
        block_inputs.check_rank(shape)
        block_inputs.check_heads(given.num_attention_heads, width)
        options = {
            **given.for_dense(),
            "num_heads": given.num_attention_heads,
            "key_dim": width // given.num_attention_heads,
            "dropout": given.attention_dropout_rate,
        }
        if given.src_block_size is not None:
            self._attention_layer = block_sparse_attention.MultiHeadAttention(
                given.src_block_size,
                given.tgt_block_size,
                **options,
                name="block_sparse_attention",
            )
        elif given.num_kv_heads is not None:
            self._attention_layer = multi_query_attention.MultiHeadAttention(
                num_kv_heads=given.num_kv_heads, **options, name="multi_query_attention"
            )
        else:
            self._attention_layer = keras.layers.MultiHeadAttention(
                **options, name="self_attention"
            )
        self._attention_layer.build(shape, key_value_shape)
        self._feed_forward = feed_forward.FeedForward(
            width,
            given.inner_dim,
            activation=given.inner_activation,
            dense_options=given.for_dense,
        )
        self._feed_forward.build(shape)
        self._dropout = dropout.Dropout(given.dropout_rate)
        self._attention_layer_norm = self._build_norm("self_attention_layer_norm", shape)
        self._output_layer_norm = self._build_norm("output_layer_norm", shape)
        self._rezero_a = self._add_factor("rezero_alpha")
        self._rezero_a_ffn = self._rezero_a
        if not given.share_rezero:
            self._rezero_a_ffn = self._add_factor("rezero_alpha_ffn")
        self.built = True

    def _build_norm(self, name: str, shape: Any) -> LayerNormalization | None:
        if not self._given.use_layer_norm:
            return None
        norm = LayerNormalization(1e-12, dtype="float32", name=name)
        norm.build(shape)
        return norm

    def _add_factor(self, name: str) -> keras.Variable:
        return self.add_weight(shape=(), initializer="zeros", autocast=False, name=name)

    def reset_rezero(self) -> None:
        """Sets the factors to 0."""
        for factor in (self._rezero_a, self._rezero_a_ffn):
            factor.assign(0.0)

    @override
    def call(
        self, inputs: Any, output_range: Any = None, training: bool | None = None
    ) -> tf.Tensor:
        """Encodes.

        Args:
            inputs: `x`, `[x, mask]` or `[x, key_value, mask]`, see `TransformerEncoderBlock`.
            output_range: How many positions, from the first, are encoded; None for all.
            training: Whether to apply dropout.

        Returns:
            `[B, Q, D]` float32.
        """
        output_range = self._given.output_range if output_range is None else output_range
        chosen = slice(output_range) if block_inputs.is_range(output_range) else None
        return self.encode(inputs, chosen, training)

    def encode(self, inputs: Any, chosen: slice | None, training: bool | None) -> tf.Tensor:
        """Encodes the positions that are chosen, None for all."""
        x, key_value, mask = block_inputs.read_inputs(inputs)
        key_value = x if key_value is None else key_value
        x, mask = block_inputs.choose(x, mask, chosen)
        output = self._attention_layer(
            query=x, value=key_value, attention_mask=mask, training=training
        )
        x = self._add(x, output, self._rezero_a, self._attention_layer_norm, training)
        output = self._feed_forward(x, training=training)
        return self._add(x, output, self._rezero_a_ffn, self._output_layer_norm, training)

    def _add(
        self, x: tf.Tensor, output: tf.Tensor, factor: Any, norm: Any, training: bool | None
    ) -> tf.Tensor:
        output = tf.cast(self._dropout(output, training=training), tf.float32)
        total = tf.cast(x, tf.float32) + tf.convert_to_tensor(factor) * output
        return total if norm is None else norm(total)

    @override
    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), **self._given.to_config()}
