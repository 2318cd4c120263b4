"""Attention to several sources at once, and the votes that weigh them.

Shapes:
    B  examples in the batch
    A  sources of an example
    T  target positions
    S  positions of a source
    H  attention heads
    D  width
"""

import math
from typing import Any

import keras
import tensorflow as tf
from typing_extensions import override

from quintain.garden.nlp.attention import masked_softmax
from quintain.modeling import tf_utils
from quintain.nlp.modeling.layers import layer_arguments


@keras.saving.register_keras_serializable(package="Text")
class VotingAttention(keras.layers.Layer):
    """Weighs sources by how much the first positions of the others attend to theirs.

    Source:
        Gu et al., 2020 (https://arxiv.org/abs/2001.09386).
    """

    def __init__(
        self,
        num_heads: int,
        head_size: int,
        kernel_initializer: Any = "glorot_uniform",
        bias_initializer: Any = "zeros",
        kernel_regularizer: Any = None,
        bias_regularizer: Any = None,
        activity_regularizer: Any = None,
        kernel_constraint: Any = None,
        bias_constraint: Any = None,
        **kwargs: Any,
    ) -> None:
        given = layer_arguments.LayerArguments(locals())
        super().__init__(**kwargs)
        self._given = given

    @override
    def build(self, input_shape: Any) -> None:
        width = input_shape[-1]
        self._query_dense, self._key_dense = (
            keras.layers.EinsumDense(
                "BAE,ENH->BANH",
                output_shape=(None, self._given.num_heads, self._given.head_size),
                bias_axes="NH",
                name=name,
                **self._given.for_dense(),
            )
            for name in ("query", "key")
        )
        for layer in (self._query_dense, self._key_dense):
            layer.build((None, None, width))
        self.built = True

    @override
    def call(self, encoder_outputs: tf.Tensor, doc_attention_mask: tf.Tensor) -> tf.Tensor:
        """Weighs sources.

        Args:
            encoder_outputs: `[B, A, S, D]`.
            doc_attention_mask: `[B, A]`: 1 for sources, 0 for what fills up.

        Returns:
            `[B, A]`: weights whose sum is 1.
        """
        count = tf_utils.get_shape_list(encoder_outputs, expected_rank=[4])[1]
        mask = tf.cast(doc_attention_mask, tf.float32)  # [B, A]
        first = encoder_outputs[:, :, 0, :]  # [B, A, D]
        query, key = (
            tf.einsum("BANH,BA->BANH", tf.cast(layer(first), tf.float32), mask)
            for layer in (self._query_dense, self._key_dense)
        )
        scores = tf.einsum("BXNH,BYNH->BNXY", query, key)
        votes = tf.einsum("BNXY,XY->BX", scores, 1.0 - tf.eye(count))  # None for itself.
        return tf.nn.softmax(votes + (1.0 - mask) * -100000.0)

    @override
    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), **self._given.to_config()}


@keras.saving.register_keras_serializable(package="Text")
class MultiChannelAttention(keras.layers.MultiHeadAttention):
    """Attention to each of several sources, mixed by given weights.

    Source:
        Gu et al., 2020 (https://arxiv.org/abs/2001.09386).
    """

    @override
    def _build_attention(self, rank: int) -> None:
        super()._build_attention(rank)
        self._softmax = masked_softmax.MaskedSoftmax(mask_expansion_axes=2)

    @override
    def call(
        self,
        query: tf.Tensor,
        value: tf.Tensor,
        key: tf.Tensor | None = None,
        context_attention_weights: tf.Tensor | None = None,
        attention_mask: tf.Tensor | None = None,
        training: bool | None = None,
    ) -> tf.Tensor:
        """Attends.

        Args:
            query: `[B, T, D]`.
            value: `[B, A, S, D]`.
            key: Likewise; None for `value`.
            context_attention_weights: `[B, H, T, A]`, how much each source counts.
            attention_mask: `[B, A, T, S]`: 0 where attention is not allowed.
            training: Whether to apply dropout.

        Returns:
            `[B, T, D]`.
        """
        key = value if key is None else key
        queries = self._query_dense(query)  # [B, T, H, key_dim]
        scores = tf.einsum("BASNH,BTNH->BANTS", self._key_dense(key), queries)
        scores *= 1.0 / math.sqrt(self._key_dim)
        weights = self._dropout_layer(self._softmax(scores, attention_mask), training=training)
        mixed = tf.einsum("BANTS,BASNH->BATNH", weights, self._value_dense(value))
        mixed = tf.einsum("BNTA,BATNH->BTNH", context_attention_weights, mixed)
        return self._output_dense(mixed)
