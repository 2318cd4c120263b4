"""Attention within blocks of positions.

Shapes:
    B  examples in the batch
    Q  query positions
    K  key positions
    H  attention heads
    L  blocks
    t  query positions of a block
    s  key positions of a block
"""

from typing import Any

import keras
import tensorflow as tf
from typing_extensions import override

from quintain import errors
from quintain.garden.nlp.attention import einsum_attention


@keras.saving.register_keras_serializable(package="Text", name="BlockSparseAttention")
class MultiHeadAttention(einsum_attention.EinsumAttention):
    """Keras' attention, of each block of queries to the block of keys at its place.

    Where there is one block, it is that of Keras. Otherwise the weights are normalised over the
    queries of a block, not over its keys: that is what the Model Garden computes, and what its
    checkpoints have learnt with.
    """

    def __init__(
        self,
        src_block_size: int | None = None,
        tgt_block_size: int | None = None,
        use_sigmoid_attn: bool = False,
        sigmoid_attn_bias: float | None = None,
        num_kv_heads: int | None = None,
        **kwargs: Any,
    ) -> None:
        """Checks the options.

        Raises:
            ConfigError: If an option is missing, or out of its range.
        """
        super().__init__(**kwargs)
        if src_block_size is None or src_block_size <= 0:
            raise errors.ConfigError(
                f"src_block_size: got {src_block_size}; it must be specified, and positive."
            )
        if num_kv_heads not in (None, 1):
            raise errors.ConfigError(
                f"num_kv_heads: got {num_kv_heads}; with blocks it must be 1, or None."
            )
        if use_sigmoid_attn and sigmoid_attn_bias is None:
            raise errors.ConfigError(
                "sigmoid_attn_bias: got None; it must be specified for sigmoid attn."
            )
        self._src_block_size = src_block_size
        self._tgt_block_size = tgt_block_size or src_block_size
        self._num_kv_heads = num_kv_heads
        self._use_sigmoid_attn = use_sigmoid_attn
        self._sigmoid_attn_bias = sigmoid_attn_bias

    @override
    def build(self, query_shape: Any, value_shape: Any, key_shape: Any = None) -> None:
        key_shape = key_shape or value_shape
        self._num_blocks = tuple(
            _count_blocks(name, shape[1], size)
            for name, shape, size in (
                ("src_block_size", query_shape, self._src_block_size),
                ("tgt_block_size", key_shape, self._tgt_block_size),
            )
        )
        source, target = self._num_blocks
        if target not in (1, source):
            raise errors.ConfigError(
                f"tgt_block_size: got {self._tgt_block_size}, which makes {target} blocks of keys, "
                f"but src_block_size={self._src_block_size} makes {source} of queries."
            )
        if source == target == 1:
            super().build(query_shape, value_shape, key_shape)
            return
        self._build_attention(4)
        heads = "" if self._num_kv_heads == 1 else "N"
        block = "" if target == 1 else "L"
        self._dot_product_equation = f"B{heads}{block}sH,BNLtH->BNLts"
        self._combine_equation = f"BNLts,B{heads}{block}sH->BNLtH"
        self._query_dense = self._split("query", query_shape, self._key_dim, "N")
        self._key_dense = self._split("key", key_shape, self._key_dim, heads)
        self._value_dense = self._split("value", value_shape, self._value_dim, heads)
        width = (self._output_shape or query_shape[-1:])[0]
        self._output_dense = keras.layers.EinsumDense(
            "BNTH,DNH->BTD",
            output_shape=(None, width),
            bias_axes="D" if self._use_bias else None,
            name="attention_output",
            **self._get_common_kwargs_for_sublayer(),
        )
        self._output_dense.build((None, self._num_heads, None, self._value_dim))

    def _split(self, name: str, shape: Any, width: int, heads: str) -> keras.layers.EinsumDense:
        layer = keras.layers.EinsumDense(
            f"BTD,D{heads}H->B{heads}TH",
            output_shape=(*([self._num_heads] if heads else []), None, width),
            bias_axes=f"{heads}H" if self._use_bias else None,
            name=name,
            **self._get_common_kwargs_for_sublayer(),
        )
        layer.build(shape)
        return layer

    @override
    def call(
        self,
        query: tf.Tensor,
        value: tf.Tensor,
        key: tf.Tensor | None = None,
        attention_mask: tf.Tensor | None = None,
        return_attention_scores: bool = False,
        training: bool | None = None,
        use_causal_mask: bool = False,
    ) -> Any:
        """Attends, as `keras.layers.MultiHeadAttention` does, but for causal masks.

        Raises:
            ValueError: If there is to be a causal mask.
        """
        if use_causal_mask:
            raise ValueError("use_causal_mask is not supported within blocks.")
        return super().call(
            query,
            value,
            key=key,
            attention_mask=attention_mask,
            return_attention_scores=return_attention_scores,
            training=training,
        )

    @override
    def _masked_softmax(
        self, attention_scores: tf.Tensor, attention_mask: tf.Tensor | None = None
    ) -> tf.Tensor:
        mask = None if attention_mask is None else attention_mask[:, tf.newaxis]
        if not self._use_sigmoid_attn:
            return self._softmax(attention_scores, mask=mask)
        scores = attention_scores + self._sigmoid_attn_bias
        if mask is not None:
            lowest = tf.float16.min / 2 if scores.dtype == tf.float16 else -1e9
            scores += (1.0 - tf.cast(mask, scores.dtype)) * lowest
        return tf.sigmoid(scores)

    def _mask_blocks(self, mask: tf.Tensor, dtype: Any) -> tf.Tensor:
        """Turns a mask `[B, Q, K]` into those of the blocks, `[B, L, t, s]`."""
        source, target = self._num_blocks
        if target == 1:
            return tf.reshape(mask, [-1, source, self._src_block_size, self._tgt_block_size])
        keys = tf.cast(mask[:, 0], dtype)  # The same for all queries.
        keys = tf.reshape(keys, [-1, target, self._tgt_block_size])
        allowed = keys[:, :, tf.newaxis]  # [B, L, 1, s]
        if self._src_block_size != self._tgt_block_size:
            return allowed
        return keys[:, :, :, tf.newaxis] * allowed

    @override
    def _compute_attention(
        self,
        query: tf.Tensor,
        key: tf.Tensor,
        value: tf.Tensor,
        attention_mask: tf.Tensor | None = None,
        *args: Any,
        **kwargs: Any,
    ) -> tuple[tf.Tensor, tf.Tensor]:
        source, target = self._num_blocks
        if source == target == 1:
            return super()._compute_attention(query, key, value, attention_mask, *args, **kwargs)
        heads = [] if self._num_kv_heads == 1 else [self._num_heads]
        if target > 1:
            blocks = [-1, *heads, target, self._tgt_block_size]
            key = tf.reshape(key, [*blocks, self._key_dim])
            value = tf.reshape(value, [*blocks, self._value_dim])
        if attention_mask is not None:
            attention_mask = self._mask_blocks(attention_mask, key.dtype)
        shape = [-1, self._num_heads, source, self._src_block_size, self._key_dim]
        mixed, weights = super()._compute_attention(
            tf.reshape(query, shape), key, value, attention_mask, *args, **kwargs
        )
        length = source * self._src_block_size
        return tf.reshape(mixed, [-1, self._num_heads, length, self._value_dim]), weights

    @override
    def get_config(self) -> dict[str, Any]:
        return {
            **super().get_config(),
            "src_block_size": self._src_block_size,
            "tgt_block_size": self._tgt_block_size,
            "use_sigmoid_attn": self._use_sigmoid_attn,
            "sigmoid_attn_bias": self._sigmoid_attn_bias,
            "num_kv_heads": self._num_kv_heads,
        }


BlockSparseAttention = MultiHeadAttention


def _count_blocks(name: str, length: int | None, size: int) -> int:
    if length is None or length % size:
        raise errors.ConfigError(
            f"{name}: got {size}, but the number of positions, {length}, must be divisible by it "
            "and known."
        )
    return length // size
