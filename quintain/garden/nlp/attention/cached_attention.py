"""Keras' attention with a cache, for decoding one position at a time.

Shapes:
    B  examples in the batch
    Q  query positions
    K  key positions
    H  attention heads
    D  width of the model
"""

from collections.abc import MutableMapping
from typing import Any

import keras
import tensorflow as tf
from typing_extensions import override

from quintain.garden.nlp.attention import einsum_attention
from quintain.nlp.modeling.layers import attention_cache

MultiHeadAttention = keras.layers.MultiHeadAttention
EinsumDense = keras.layers.EinsumDense


@keras.saving.register_keras_serializable(package="Text")
class CachedAttention(attention_cache.CacheInPlace, einsum_attention.EinsumAttention):
    """Keras' attention, with a cache of keys and values for decoding one position at a time."""

    @override
    def call(
        self,
        query: tf.Tensor,
        value: tf.Tensor,
        key: tf.Tensor | None = None,
        attention_mask: tf.Tensor | None = None,
        cache: MutableMapping[str, tf.Tensor] | None = None,
        decode_loop_step: Any = None,
        return_attention_scores: bool = False,
        training: bool | None = None,
    ) -> tuple[Any, ...]:
        """Attends, and puts the keys and values into the cache.

        Args:
            query: `[B, Q, D]`.
            value: `[B, K, D]`.
            key: `[B, K, D]`; None for `value`.
            attention_mask: `[B, Q, K]`, with all positions of the cache; 0 where attention is not
                allowed.
            cache: `key` and `value`, `[B, K, H, D / H]`; it is changed. None or empty for none.
            decode_loop_step: Place of the new position in a cache of fixed length.
            return_attention_scores: Whether to return the attention's weights, too.
            training: Whether to apply dropout.

        Returns:
            The output `[B, Q, D]`, then the weights if they are asked for, and the cache.
        """
        key, cache = value if key is None else key, attention_cache.open_cache(cache)
        queries = self._query_dense(query)  # [B, Q, H, D / H]
        keys, values = self._key_dense(key), self._value_dense(value)
        if cache:
            keys, values = attention_cache.update_cache(keys, values, cache, decode_loop_step)
        mixed, weights = self._compute_attention(queries, keys, values, attention_mask, training)
        output = self._output_dense(mixed)
        return (output, weights, cache) if return_attention_scores else (output, cache)
