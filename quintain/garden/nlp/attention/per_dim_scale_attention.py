"""Attention with a learnt scale for each dimension of its queries."""

import math
from typing import Any, Final

import keras
import tensorflow as tf
from typing_extensions import override

from quintain.config import gin_io
from quintain.garden.nlp.attention import einsum_attention

_INVERSE_AT_ZERO: Final = 1.0 / math.log(2.0)
"""1 / softplus(0): a scale that has not been learnt is 1."""


@gin_io.configurable
@keras.saving.register_keras_serializable(package="Text")
class PerDimScaleAttention(einsum_attention.EinsumAttention):
    """Keras' attention, with a factor learnt for each dimension of a head's queries."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)

    @override
    def build(self, query_shape: Any, value_shape: Any, key_shape: Any = None) -> None:
        super().build(query_shape, value_shape, key_shape)
        self.per_dim_scale = self.add_weight(
            shape=(self._key_dim,), initializer="zeros", name="per_dim_scale"
        )

    @override
    def call(
        self,
        query: tf.Tensor,
        value: tf.Tensor,
        key: tf.Tensor | None = None,
        attention_mask: tf.Tensor | None = None,
        return_attention_scores: bool = False,
        training: bool | None = None,
    ) -> Any:
        """Attends, as `keras.layers.MultiHeadAttention` does."""
        return super().call(
            query,
            value,
            key=key,
            attention_mask=attention_mask,
            return_attention_scores=return_attention_scores,
            training=training,
        )

    @override
    def scale_queries(self, queries: tf.Tensor) -> tf.Tensor:
        learnt = tf.nn.softplus(tf.convert_to_tensor(self.per_dim_scale))
        scale = tf.cast(_INVERSE_AT_ZERO / math.sqrt(self._key_dim) * learnt, queries.dtype)
        return queries * scale
