"""Keras' attention as products of tensors, with places for what other kinds change of it."""

import math
from typing import Any

import keras
import tensorflow as tf
from typing_extensions import override

from quintain.garden.nlp.attention import masked_softmax


class EinsumAttention(keras.layers.MultiHeadAttention):
    """Multi-head attention, computed in the open: `scale_queries`, `map_scores`, `map_weights`."""

    _softmax: Any

    @override
    def _build_attention(self, rank: int) -> None:
        super()._build_attention(rank)
        # Keras' softmax warns where there is one key, as in the first step of decoding.
        axes = self._softmax.axis
        self._softmax = masked_softmax.MaskedSoftmax(normalization_axes=tuple(axes))

    def scale_queries(self, queries: tf.Tensor) -> tf.Tensor:
        """Returns queries `[B, Q, H, key_dim]`, scaled."""
        return queries * tf.cast(1.0 / math.sqrt(self._key_dim), queries.dtype)

    def map_scores(self, scores: tf.Tensor) -> tf.Tensor:
        """Returns the scores `[B, H, Q, K]` of which the softmax is taken."""
        return scores

    def map_weights(self, weights: tf.Tensor) -> tf.Tensor:
        """Returns the weights `[B, H, Q, K]` by which values are mixed."""
        return weights

    @override
    def _compute_attention(
        self,
        query: tf.Tensor,
        key: tf.Tensor,
        value: tf.Tensor,
        attention_mask: tf.Tensor | None = None,
        training: bool | None = None,
        return_attention_scores: bool = False,
        **kwargs: Any,
    ) -> tuple[tf.Tensor, tf.Tensor]:
        scores = tf.einsum(self._dot_product_equation, key, self.scale_queries(query))
        weights = self._masked_softmax(self.map_scores(scores), attention_mask)
        weights = self.map_weights(weights)
        dropped = self._dropout_layer(weights, training=training)
        return tf.einsum(self._combine_equation, dropped, value), weights
