"""One block of the Transformer's encoder.

Shapes:
    B  examples in the batch
    Q  positions that are encoded
    K  positions that are attended to
    H  attention heads
    D  width of the model
    N  tokens of all examples, where padding is left out
"""

from collections.abc import Sequence
from typing import Any

import keras
import tensorflow as tf
from typing_extensions import override

from quintain import errors
from quintain.modeling import rematerialization, tf_utils
from quintain.nlp.modeling.layers import (
    attention,
    block_inputs,
    block_sparse_attention,
    dropout,
    feed_forward,
    layer_arguments,
    multi_query_attention,
    packed_rows,
    residual_block,
    rms_norm,
    util,
)

RMSNorm = rms_norm.RMSNorm


@keras.saving.register_keras_serializable(package="Text")
class TransformerEncoderBlock(residual_block.ResidualBlock):
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
        """Stores and checks the options.

        Args:
            num_attention_heads: Attention heads.
            inner_dim: Width inside the feed-forward part.
            inner_activation: Keras' name of its activation, or a function.
            output_range: How many positions, from the first, are encoded; None for all.
            kernel_initializer: Keras' initializer of kernels.
            bias_initializer: Likewise of biases.
            kernel_regularizer: Keras' regularizer of kernels; as in the Model Garden, it has no
                effect here.
            bias_regularizer: Likewise of biases, which has.
            activity_regularizer: Likewise of the outputs of dense layers.
            kernel_constraint: Keras' constraint on kernels.
            bias_constraint: Likewise on biases.
            use_bias: Whether the projections of attention have biases.
            norm_first: Whether inputs of both parts are normalised, instead of outputs.
            norm_epsilon: Added to the variance in normalisation.
            use_rms_norm: Whether the first normalisation is `RMSNorm`.
            output_dropout: Share of each part's output that training drops.
            attention_dropout: Share of the attention weights that training drops.
            inner_dropout: Share of values inside the feed-forward part that training drops.
            attention_initializer: Initializer of attention's kernels; None for the others'.
            attention_axes: Dimensions over which attention is; None for all but the first and last.
            use_query_residual: Whether attention's output is added to its input.
            key_dim: Width of a head's queries and keys; None for the width by the heads.
            value_dim: Width of a head's values; None for `key_dim`.
            output_last_dim: Width of the output; None for the input's.
            diff_q_kv_att_layer_norm: Whether what is attended to has a normalisation of its own.
            return_attention_scores: Whether attention's weights are returned, too.
            num_kv_heads: Heads of keys and values, fewer than of queries; None for as many.
            src_block_size: Queries of a block, within which attention is; None for no blocks.
            tgt_block_size: Likewise of keys; None for the same.
            use_sigmoid_attn: Whether weights of blocks are sigmoids instead of a softmax.
            sigmoid_attn_bias: Added to the scores then.
            linformer_dim: To how many positions keys and values are projected; None for no
                projection. It needs inputs of a fixed length.
            linformer_shared_kv_projection: Whether both are projected by one matrix.
            **kwargs: Arguments of a Keras layer.

        Raises:
            ConfigError: If `diff_q_kv_att_layer_norm` is asked for without `norm_first`, or blocks
                with several heads of keys.
        """
        given = layer_arguments.LayerArguments(locals())
        util.filter_kwargs(kwargs)
        super().__init__(**kwargs)
        self.given = given
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
    def takes_rows(self) -> bool:
        """True if the block can compute tokens alone: where attention is computed fused."""
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
        """Creates the parts.

        Args:
            input_shape: Shape of the input, or of the list of inputs.
        """
        given = self.given
        shape, key_value_shape = block_inputs.read_shapes(input_shape)
        width: Any = given.output_last_dim or shape[-1]
        is_fused = (
            self.takes_rows
            and len(shape) <= 3
            and shape[-1] == key_value_shape[-1]
            and shape[-1] % given.num_attention_heads == 0
        )
        self.self_attention = (
            self._build_fused(shape) if is_fused else self._build_general(shape, key_value_shape)
        )
        self.feed_forward = feed_forward.FeedForward(
            width,
            given.inner_dim,
            activation=given.inner_activation,
            dropout_rate=given.inner_dropout,
            dense_options=lambda: {**given.for_dense(), "kernel_regularizer": None},
        )
        inner_shape = (*shape[:-1], width)
        self.feed_forward.build(inner_shape)
        norm_shape = shape if given.norm_first else inner_shape
        self.self_attention_norm = self._build_attention_norm(
            "self_attention_layer_norm", norm_shape
        )
        self.key_value_norm = None
        if given.diff_q_kv_att_layer_norm:
            self.key_value_norm = self._build_attention_norm(
                "self_attention_layer_norm_kv", key_value_shape
            )
        self.feed_forward_norm = self.build_norm("output_layer_norm", inner_shape)
        self.dropout = dropout.Dropout(given.output_dropout)
        self.low_rank: Any = None
        if given.linformer_dim is not None:
            size = given.linformer_dim * (1 if given.linformer_shared_kv_projection else 2)
            self.low_rank = keras.layers.EinsumDense(
                "...bc,cd->...bd",
                output_shape=(None, size),
                name="lowrank_kv_projection",
                **{**given.for_dense(), "kernel_regularizer": None},
            )
            self.low_rank.build((key_value_shape[0], key_value_shape[2], key_value_shape[1]))
        self.built = True

    def _build_attention_norm(self, name: str, shape: Any) -> keras.layers.Layer:
        if not self.given.use_rms_norm:
            return self.build_norm(name, shape)
        norm = rms_norm.RMSNorm(epsilon=self.given.norm_epsilon, name=name)
        norm.build(shape)
        return norm

    def _get_attention_initializer(self) -> Any:
        given = self.given
        initializer = given.attention_initializer or given.kernel_initializer
        return tf_utils.clone_initializer(initializer)

    def _build_fused(self, shape: Any) -> attention.SelfAttention:
        given = self.given
        layer = attention.SelfAttention(
            given.num_attention_heads,
            shape[-1],
            dropout_rate=given.attention_dropout,
            use_bias=given.use_bias,
            kernel_initializer=self._get_attention_initializer(),
            bias_initializer=given.bias_initializer,
            name="self_attention",
        )
        layer.build(shape)
        return layer

    def _build_general(self, shape: Any, key_value_shape: Any) -> keras.layers.MultiHeadAttention:
        given = self.given
        options = given.for_dense() | {
            "kernel_regularizer": None,
            "kernel_initializer": self._get_attention_initializer(),
            "num_heads": given.num_attention_heads,
            "key_dim": given.key_dim or shape[-1] // given.num_attention_heads,
            "value_dim": given.value_dim,
            "dropout": given.attention_dropout,
            "use_bias": given.use_bias,
            "attention_axes": given.attention_axes,
            "output_shape": given.output_last_dim,
        }
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
            layer = attention.MultiHeadAttention(**options, name="self_attention")
        else:
            layer = multi_query_attention.MultiHeadAttention(
                num_kv_heads=given.num_kv_heads, **options, name="multi_query_attention"
            )
        if given.linformer_dim is not None:
            key_value_shape = (shape[0], given.linformer_dim, key_value_shape[-1])
        layer.build(shape, key_value_shape)
        return layer

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
            output_range: How many positions, from the first, are encoded; None for all.
            training: Whether to apply dropout.
            rows: Where the tokens are, if `x` are tokens alone, `[N, D]`.

        Returns:
            `[B, Q, D]`; or that and the attention's weights `[B, H, Q, K]`, if they are asked for.
        """
        output_range = self.given.output_range if output_range is None else output_range
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
            x if self.given.use_query_residual else None,
            output,
            (norm, self.feed_forward_norm),
            training,
        )
        x = self.add_feed_forward(x, training, entered)
        return (x, scores) if self.given.return_attention_scores else x

    def _attend(
        self,
        queries: tf.Tensor,
        attended: tf.Tensor,
        mask: tf.Tensor | None,
        training: bool | None,
        rows: packed_rows.PackedRows | None,
    ) -> tuple[tf.Tensor, Any]:
        """Returns the attention's output, and its weights if they are asked for."""
        layer = self.self_attention
        if isinstance(layer, attention.SelfAttention):
            bias = None if mask is None else attention.to_bias(mask, self.compute_dtype)
            memory = None if attended is queries else attended
            return layer(queries, bias, training=training, rows=rows, memory=memory), None
        key, value = attended, attended
        if self.low_rank is not None:
            queries, key, value = self._reduce(queries, attended, mask)
            mask = None
        found = layer(
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
