"""Attention whose queries have more heads than its keys and values.

Shapes:
    B  examples in the batch
    Q  query positions
    K  key positions
    H  heads of queries
    G  heads of keys and values, each shared by H / G heads of queries
"""

from typing import Any

import keras
import tensorflow as tf
from typing_extensions import override

from quintain import errors
from quintain.garden.nlp.attention import einsum_attention


@keras.saving.register_keras_serializable(package="Text", name="MultiQueryAttention")
class MultiHeadAttention(einsum_attention.EinsumAttention):
    """Keras' attention, with fewer heads of keys and values.

    With several of them the weights are normalised over the queries, not over the keys: that is
    what the Model Garden computes, and what its checkpoints have learnt with.

    Source:
        Shazeer, 2019 (https://arxiv.org/abs/1911.02150); Ainslie et al., 2023
        (https://arxiv.org/abs/2305.13245).
    """

    def __init__(self, num_kv_heads: int | None = None, **kwargs: Any) -> None:
        """Checks the number of heads.

        Raises:
            ConfigError: If it is no divisor of `num_heads`, or no smaller.
        """
        super().__init__(**kwargs)
        heads = self._num_heads
        if num_kv_heads is None or num_kv_heads >= heads or heads % num_kv_heads:
            raise errors.ConfigError(
                f"num_kv_heads: got {num_kv_heads!r}, expected a divisor of num_heads={heads} that "
                "is less."
            )
        self._num_kv_heads = num_kv_heads

    @override
    def build(self, query_shape: Any, value_shape: Any, key_shape: Any = None) -> None:
        key_shape = value_shape if key_shape is None else key_shape
        heads = () if self._num_kv_heads == 1 else (self._num_kv_heads,)
        self._query_dense = self._project("query", query_shape, (self._num_heads, self._key_dim))
        self._key_dense = self._project("key", key_shape, (*heads, self._key_dim))
        self._value_dense = self._project("value", value_shape, (*heads, self._value_dim))
        self._build_attention(len(query_shape) + 1)
        if heads:
            self._dot_product_equation = "...SKH,...TKnH->...nKTS"
            self._combine_equation = "...nKTS,...SKH->...TnKH"
        else:
            self._dot_product_equation = "...SH,...TNH->...NTS"
            self._combine_equation = "...NTS,...SH->...TNH"
        self._output_dense = self._make_output_dense(
            query_shape, self._get_common_kwargs_for_sublayer(), "attention_output"
        )
        self._output_dense.build((*query_shape[:-1], self._num_heads, self._value_dim))

    def _project(self, name: str, shape: Any, sizes: tuple[int, ...]) -> keras.layers.EinsumDense:
        letters = "de"[: len(sizes)]
        layer = keras.layers.EinsumDense(
            f"abc,c{letters}->ab{letters}",
            output_shape=(None, *sizes),
            bias_axes=letters if self._use_bias else None,
            name=name,
            **self._get_common_kwargs_for_sublayer(),
        )
        layer.build(shape)
        return layer

    @override
    def _compute_attention(
        self, query: tf.Tensor, *args: Any, **kwargs: Any
    ) -> tuple[tf.Tensor, tf.Tensor]:
        if self._num_kv_heads == 1:
            return super()._compute_attention(query, *args, **kwargs)
        batch, positions = tf.shape(query)[0], tf.shape(query)[1]
        shared = self._num_heads // self._num_kv_heads
        groups = [batch, positions, self._num_kv_heads, shared, self._key_dim]
        mixed, weights = super()._compute_attention(tf.reshape(query, groups), *args, **kwargs)
        mixed = tf.reshape(mixed, [batch, positions, self._num_heads, self._value_dim])
        shape = [batch, self._num_heads, positions, tf.shape(weights)[-1]]
        return mixed, tf.reshape(weights, shape)

    @override
    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "num_kv_heads": self._num_kv_heads}


MultiQueryAttention = MultiHeadAttention
