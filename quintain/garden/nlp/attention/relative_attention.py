"""Relative attention of Transformer-XL and XLNet, by content and by distance.

Shapes:
    B  examples in the batch
    Q  query positions
    K  key positions, those of the state included
    L  distances
    M  positions of the state
    P  positions that are predicted
    H  attention heads
    d  width of a head
    D  width of the model
"""

import math
from typing import Any

import keras
import tensorflow as tf
from typing_extensions import override


def _shift(scores: tf.Tensor, num_keys: tf.Tensor) -> tf.Tensor:
    """Turns scores `[B, H, Q, L]` by distance into scores `[B, H, Q, K]` by position."""
    shape = tf.shape(scores)
    turned = tf.reshape(scores, [shape[0], shape[1], shape[3], shape[2]])
    shifted = tf.reshape(turned[:, :, 1:], [shape[0], shape[1], shape[2], shape[3] - 1])
    return shifted[..., :num_keys]


@keras.saving.register_keras_serializable(package="Text")
class MultiHeadRelativeAttention(keras.layers.MultiHeadAttention):
    """Keras' attention, whose scores depend on the distance of the positions as well.

    Source:
        Dai et al., 2019, section 3.3 (https://arxiv.org/abs/1901.02860).
    """

    def __init__(self, kernel_initializer: Any = "variance_scaling", **kwargs: Any) -> None:
        super().__init__(kernel_initializer=kernel_initializer, **kwargs)

    @override
    def build(self, query_shape: Any, value_shape: Any, key_shape: Any = None) -> None:
        super().build(query_shape, value_shape, key_shape)
        self._encoding_dense = keras.layers.EinsumDense(
            "abc,cde->abde",
            output_shape=(None, self._num_heads, self._key_dim),
            name="encoding",
            **self._get_common_kwargs_for_sublayer(),
        )
        self._encoding_dense.build(key_shape or value_shape)

    def compute_attention(
        self,
        query: tf.Tensor,
        key: tf.Tensor,
        value: tf.Tensor,
        position: tf.Tensor,
        content_attention_bias: tf.Tensor,
        positional_attention_bias: tf.Tensor,
        segment_matrix: tf.Tensor | None = None,
        segment_encoding: tf.Tensor | None = None,
        segment_attention_bias: tf.Tensor | None = None,
        attention_mask: tf.Tensor | None = None,
        training: bool | None = None,
    ) -> tf.Tensor:
        """Attends.

        Args:
            query: `[B, Q, H, d]`.
            key: `[B, K, H, d]`.
            value: `[B, K, H, d]`.
            position: `[B, L, H, d]`, the projected encodings of distances.
            content_attention_bias: `[H, d]`, added to queries for scores by content.
            positional_attention_bias: Likewise for scores by distance.
            segment_matrix: `[B, Q, K]` bool: whether two positions are of different segments.
            segment_encoding: `[2, H, d]`, for the same segment and for another.
            segment_attention_bias: `[H, d]`, added to queries for scores by segment.
            attention_mask: `[B, Q, K]`: 0 where attention is not allowed.
            training: Whether to apply dropout.

        Returns:
            `[B, Q, H, d]`.
        """
        by_content = tf.einsum("bkhd,bqhd->bhqk", key, query + content_attention_bias)
        by_distance = tf.einsum("blhd,bqhd->bhql", position, query + positional_attention_bias)
        scores = by_content + _shift(by_distance, tf.shape(by_content)[3])
        if segment_matrix is not None:
            by_segment = tf.einsum(
                "bqhd,shd->bhqs", query + segment_attention_bias, segment_encoding
            )
            is_other = tf.cast(segment_matrix, tf.bool)[:, tf.newaxis]  # [B, 1, Q, K]
            scores += tf.where(is_other, by_segment[..., 1:], by_segment[..., :1])
        scores *= 1.0 / math.sqrt(self._key_dim)
        weights = self._dropout_layer(
            self._masked_softmax(scores, attention_mask), training=training
        )
        return tf.einsum("bhqk,bkhd->bqhd", weights, value)

    @override
    def call(
        self,
        query: tf.Tensor,
        value: tf.Tensor,
        content_attention_bias: tf.Tensor,
        positional_attention_bias: tf.Tensor,
        key: tf.Tensor | None = None,
        relative_position_encoding: tf.Tensor | None = None,
        segment_matrix: tf.Tensor | None = None,
        segment_encoding: tf.Tensor | None = None,
        segment_attention_bias: tf.Tensor | None = None,
        state: tf.Tensor | None = None,
        attention_mask: tf.Tensor | None = None,
        training: bool | None = None,
    ) -> tf.Tensor:
        """Attends; arguments as for `compute_attention`, before their projection.

        Args:
            query: `[B, Q, D]`.
            value: `[B, K - M, D]`.
            content_attention_bias: `[H, d]`.
            positional_attention_bias: `[H, d]`.
            key: `[B, K - M, D]`; None for `value`.
            relative_position_encoding: `[B, L, D]`.
            segment_matrix: `[B, Q, K]`.
            segment_encoding: `[2, H, d]`.
            segment_attention_bias: `[H, d]`.
            state: `[B, M, D]`, earlier positions that are attended to as well.
            attention_mask: `[B, Q, K]`.
            training: Whether to apply dropout.

        Returns:
            `[B, Q, D]`.
        """
        key = value if key is None else key
        if state is not None and state.shape.rank > 1:
            key, value = (tf.concat([state, part], axis=1) for part in (key, value))
        mixed = self.compute_attention(
            query=self._query_dense(query),
            key=self._key_dense(key),
            value=self._value_dense(value),
            position=self._encoding_dense(relative_position_encoding),
            content_attention_bias=content_attention_bias,
            positional_attention_bias=positional_attention_bias,
            segment_matrix=segment_matrix,
            segment_encoding=segment_encoding,
            segment_attention_bias=segment_attention_bias,
            attention_mask=attention_mask,
            training=training,
        )
        return self._output_dense(mixed)


@keras.saving.register_keras_serializable(package="Text")
class TwoStreamRelativeAttention(MultiHeadRelativeAttention):
    """Relative attention of a content stream, and of a query stream that does not see its content.

    Source:
        Yang et al., 2019, section 2.3 (https://arxiv.org/abs/1906.08237).
    """

    @override
    def build(  # type: ignore[override]  # Keras finds shapes by the names of arguments.
        self, content_stream_shape: Any, query_stream_shape: Any = None
    ) -> None:
        del query_stream_shape
        super().build(content_stream_shape, content_stream_shape)

    @override
    def call(  # type: ignore[override]  # Two streams, each with its mask.
        self,
        content_stream: tf.Tensor,
        content_attention_bias: tf.Tensor,
        positional_attention_bias: tf.Tensor,
        query_stream: tf.Tensor | None,
        relative_position_encoding: tf.Tensor,
        target_mapping: tf.Tensor | None = None,
        segment_matrix: tf.Tensor | None = None,
        segment_encoding: tf.Tensor | None = None,
        segment_attention_bias: tf.Tensor | None = None,
        state: tf.Tensor | None = None,
        content_attention_mask: tf.Tensor | None = None,
        query_attention_mask: tf.Tensor | None = None,
        training: bool | None = None,
    ) -> tuple[tf.Tensor, tf.Tensor | None]:
        """Attends with both streams.

        Args:
            content_stream: `[B, Q, D]`.
            content_attention_bias: `[H, d]`.
            positional_attention_bias: `[H, d]`.
            query_stream: `[B, P, D]`; None for none.
            relative_position_encoding: `[B, L, D]`.
            target_mapping: `[B, P, Q]`: which position each prediction is of; None for `P = Q`.
            segment_matrix: `[B, Q, K]`.
            segment_encoding: `[2, H, d]`.
            segment_attention_bias: `[H, d]`.
            state: `[B, M, D]`, earlier positions that are attended to as well.
            content_attention_mask: `[B, Q, K]`.
            query_attention_mask: `[B, Q, K]`.
            training: Whether to apply dropout.

        Returns:
            What both streams become; None for a query stream that there is not.
        """
        attended = content_stream
        if state is not None and state.shape.rank > 1:
            attended = tf.concat([state, content_stream], axis=1)
        shared = {
            "key": self._key_dense(attended),
            "value": self._value_dense(attended),
            "position": self._encoding_dense(relative_position_encoding),
            "content_attention_bias": content_attention_bias,
            "positional_attention_bias": positional_attention_bias,
            "segment_matrix": segment_matrix,
            "segment_encoding": segment_encoding,
            "segment_attention_bias": segment_attention_bias,
            "training": training,
        }
        content = self.compute_attention(
            query=self._query_dense(content_stream),
            attention_mask=content_attention_mask,
            **shared,
        )
        content = self._output_dense(content)
        if query_stream is None:
            return content, None
        queries = self._query_dense(query_stream)
        if target_mapping is not None:
            queries = tf.einsum("bphd,bpq->bqhd", queries, target_mapping)
        found = self.compute_attention(query=queries, attention_mask=query_attention_mask, **shared)
        if target_mapping is not None:
            found = tf.einsum("bqhd,bpq->bphd", found, target_mapping)
        return content, self._output_dense(found)
