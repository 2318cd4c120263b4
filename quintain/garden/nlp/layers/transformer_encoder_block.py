"""The block of an encoder with all options of the Model Garden.

Shapes:
    B  examples in the batch
    Q  positions that are encoded
    K  positions that are attended to
    D  width of the model
"""

from collections.abc import Sequence
from typing import Any

import keras
import tensorflow as tf
from typing_extensions import override

from quintain import errors
from quintain.garden.nlp.attention import block_sparse_attention, multi_query_attention
from quintain.garden.nlp.layers import util
from quintain.modeling import tf_utils
from quintain.nlp.modeling.layers import (
    block_inputs,
    encoder_block,
    fused_attention,
    layer_arguments,
    packed_rows,
    residual_block,
)


@keras.saving.register_keras_serializable(package="Text")
class RMSNorm(keras.layers.Layer):
    """Divides by the root of the mean square, in float32, and scales.

    Source:
        Zhang and Sennrich, 2019 (https://arxiv.org/abs/1910.07467).
    """

    def __init__(
        self, axis: int | Sequence[int] = -1, epsilon: float = 1e-6, **kwargs: Any
    ) -> None:
        super().__init__(**kwargs)
        self.axis = [axis] if isinstance(axis, int) else list(axis)
        self.epsilon = epsilon

    @override
    def build(self, input_shape: Any) -> None:
        shape = [1] * len(input_shape)
        for axis in self.axis:
            shape[axis] = input_shape[axis]
        self.scale = self.add_weight(
            shape=tuple(shape), initializer="ones", name="scale", autocast=False
        )

    @override
    def call(self, inputs: tf.Tensor) -> tf.Tensor:
        x = tf.cast(inputs, tf.float32)
        mean = tf.reduce_mean(tf.square(x), axis=self.axis, keepdims=True)
        scaled = x * tf.math.rsqrt(mean + self.epsilon) * tf.convert_to_tensor(self.scale)
        return tf.cast(scaled, inputs.dtype)

    @override
    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "axis": self.axis, "epsilon": self.epsilon}


@keras.saving.register_keras_serializable(package="Text")
class TransformerEncoderBlock(encoder_block.EncoderBlock):
    """Self-attention and a feed-forward part.

    Attention that is as published is computed with fused projections, which can also leave padding
    out; with any other option it is one of Keras' attention layers.

    Example:
        >>> block = TransformerEncoderBlock(2, 8, "relu")
        >>> block([tf.ones([1, 3, 4]), tf.ones([1, 3, 3])]).shape.as_list()
        [1, 3, 4]

    Source:
        Vaswani et al., 2017, section 3.1 (https://arxiv.org/abs/1706.03762).
    """

    def __init__(
        self,
        num_attention_heads: int,
        inner_dim: int,
        inner_activation: Any,
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
        use_rms_norm: bool = False,
        output_dropout: float = 0.0,
        attention_dropout: float = 0.0,
        inner_dropout: float = 0.0,
        attention_initializer: Any = None,
        attention_axes: Sequence[int] | None = None,
        use_query_residual: bool = True,
        key_dim: int | None = None,
        value_dim: int | None = None,
        output_last_dim: int | None = None,
        diff_q_kv_att_layer_norm: bool = False,
        return_attention_scores: bool = False,
        num_kv_heads: int | None = None,
        src_block_size: int | None = None,
        tgt_block_size: int | None = None,
        use_sigmoid_attn: bool = False,
        sigmoid_attn_bias: float | None = None,
        linformer_dim: int | None = None,
        linformer_shared_kv_projection: bool = True,
        **kwargs: Any,
    ) -> None:
        """Checks the options.

        Raises:
            ConfigError: If `diff_q_kv_att_layer_norm` is asked for without `norm_first`, or blocks
                with several heads of keys.
        """
        given = layer_arguments.LayerArguments(locals())
        util.filter_kwargs(kwargs)
        options = residual_block.BlockOptions(
            num_heads=num_attention_heads,
            inner_width=inner_dim,
            activation=inner_activation,
            dropout_rates=residual_block.DropoutRates(
                output_dropout, attention_dropout, inner_dropout
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
        self.output_range = output_range
        self.output_width = output_last_dim
        self.use_query_residual = use_query_residual
        if diff_q_kv_att_layer_norm and not norm_first:
            raise errors.ConfigError(
                "diff_q_kv_att_layer_norm (`diff_q_and_kv_attention_layer_norm`): got True with "
                "norm_first=False; only inputs of attention can be normalised apart."
            )
        if src_block_size is not None and num_kv_heads not in (None, 1):
            raise errors.ConfigError(
                f"num_kv_heads: got {num_kv_heads} with src_block_size={src_block_size}; attention "
                "within blocks has 1 head of keys and values, or None for as many as of queries."
            )

    @property
    @override
    def takes_rows(self) -> bool:
        given = self.given
        is_default = given.are_unset(
            "bias_regularizer",
            "activity_regularizer",
            "kernel_constraint",
            "bias_constraint",
            "attention_axes",
            "key_dim",
            "value_dim",
            "output_last_dim",
            "num_kv_heads",
            "src_block_size",
            "linformer_dim",
        )
        return is_default and not given.return_attention_scores

    @override
    def build(self, input_shape: Any) -> None:
        super().build(input_shape)
        given = self.given
        self.low_rank: Any = None
        if given.linformer_dim is not None:
            _, (batch, length, width) = block_inputs.read_shapes(input_shape)
            size = given.linformer_dim * (1 if given.linformer_shared_kv_projection else 2)
            self.low_rank = keras.layers.EinsumDense(
                "...bc,cd->...bd",
                output_shape=(None, size),
                name="lowrank_kv_projection",
                **self.list_dense_options(),
            )
            self.low_rank.build((batch, width, length))

    @override
    def list_dense_options(self) -> dict[str, Any]:
        return {**self.given.for_dense(), "kernel_regularizer": None}

    @override
    def _build_attention_norms(self, shape: Any, key_value_shape: Any) -> None:
        self.self_attention_norm = self._build_norm("self_attention_layer_norm", shape)
        if self.given.diff_q_kv_att_layer_norm:
            name = "self_attention_layer_norm_kv"
            self.key_value_norm = self._build_norm(name, key_value_shape)

    def _build_norm(self, name: str, shape: Any) -> keras.layers.Layer:
        if not self.given.use_rms_norm:
            return self.build_norm(name, shape)
        norm = RMSNorm(epsilon=self.norm_epsilon, name=name)
        norm.build(shape)
        return norm

    @override
    def _build_attention(self, shape: Any, key_value_shape: Any) -> Any:
        given = self.given
        if (
            self.takes_rows
            and len(shape) <= 3
            and shape[-1] == key_value_shape[-1]
            and shape[-1] % given.num_attention_heads == 0
        ):
            return super()._build_attention(shape, key_value_shape)
        options = self.list_dense_options() | {
            "kernel_initializer": tf_utils.clone_initializer(
                given.attention_initializer or given.kernel_initializer
            ),
            "num_heads": given.num_attention_heads,
            "key_dim": given.key_dim or shape[-1] // given.num_attention_heads,
            "value_dim": given.value_dim,
            "dropout": given.attention_dropout,
            "use_bias": given.use_bias,
            "attention_axes": given.attention_axes,
            "output_shape": given.output_last_dim,
        }
        layer: keras.layers.MultiHeadAttention
        if given.src_block_size is not None:
            layer = block_sparse_attention.MultiHeadAttention(
                given.src_block_size,
                given.tgt_block_size,
                given.use_sigmoid_attn,
                given.sigmoid_attn_bias,
                given.num_kv_heads,
                **options,
                name="block_sparse_attention",
            )
        elif given.num_kv_heads is None:
            layer = keras.layers.MultiHeadAttention(**options, name="self_attention")
        else:
            layer = multi_query_attention.MultiHeadAttention(
                num_kv_heads=given.num_kv_heads, **options, name="multi_query_attention"
            )
        if given.linformer_dim is not None:
            key_value_shape = (shape[0], given.linformer_dim, key_value_shape[-1])
        layer.build(shape, key_value_shape)
        return layer

    @override
    def _attend(
        self,
        queries: tf.Tensor,
        attended: tf.Tensor,
        mask: tf.Tensor | None,
        training: bool | None,
        rows: packed_rows.PackedRows | None,
    ) -> tuple[tf.Tensor, Any]:
        if isinstance(self.self_attention, fused_attention.SelfAttention):
            return super()._attend(queries, attended, mask, training, rows)
        key, value = attended, attended
        if self.low_rank is not None:
            queries, key, value = self._reduce(queries, attended, mask)
            mask = None
        found = self.self_attention(
            query=queries,
            value=value,
            key=key,
            attention_mask=mask,
            training=training,
            return_attention_scores=self.given.return_attention_scores,
        )
        return found if self.given.return_attention_scores else (found, None)

    def _reduce(
        self, queries: tf.Tensor, attended: tf.Tensor, mask: tf.Tensor | None
    ) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
        """Projects keys and values to few positions; padding, which has no mask then, is zero."""
        if mask is not None:
            queries *= tf.cast(mask[:, :, :1], queries.dtype)
            attended *= tf.cast(mask[:, 0, :, tf.newaxis], attended.dtype)
        reduced = tf.transpose(self.low_rank(tf.transpose(attended, [0, 2, 1])), [0, 2, 1])
        if self.given.linformer_shared_kv_projection:
            return queries, reduced, reduced
        key, value = tf.split(reduced, 2, axis=1)
        return queries, key, value

    @override
    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), **self.given.to_config()}
