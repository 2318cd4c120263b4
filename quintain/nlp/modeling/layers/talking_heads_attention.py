"""Attention whose heads talk: scores and weights are mixed across heads.

Shapes:
    B  examples in the batch
    S  positions
    H  attention heads
    D  width of the model
"""

from typing import Any

import keras
import tensorflow as tf
from typing_extensions import override

from quintain.config import gin_io
from quintain.nlp.modeling.layers import attention


@gin_io.configurable
class TalkingHeadsAttention(attention.SelfAttention):
    """Self-attention with a linear map over the heads before and after the softmax.

    With `L` and `W` the `[H, H]` maps, `J` scores and `A` weights of shape `[B, H, S, S]`:

        A = softmax(sum_h J[:, h] L[h, :] + bias);  weights = sum_h A[:, h] W[h, :]

    Both maps start near the identity, so that training starts as with ordinary heads.

    Source:
        Shazeer et al., 2020 (https://arxiv.org/abs/2003.02436).
    """

    def __init__(
        self,
        num_heads: int,
        width: int,
        *,
        dropout_rate: float = 0.0,
        use_bias: bool = True,
        init_stddev: float = 0.02,
        **kwargs: Any,
    ) -> None:
        """Stores the sizes.

        Args:
            num_heads: Attention heads; must divide `width`.
            width: Width of inputs and outputs.
            dropout_rate: Share of the attention weights that training drops.
            use_bias: Whether projections have biases.
            init_stddev: Standard deviation of what is added to the identity at the start.
            **kwargs: Arguments of a Keras layer.

        Raises:
            ConfigError: If `num_heads` does not divide `width`.
        """
        super().__init__(num_heads, width, dropout_rate=dropout_rate, use_bias=use_bias, **kwargs)
        self.init_stddev = init_stddev

    @override
    def build(self, input_shape: Any) -> None:
        super().build(input_shape)
        self.before_softmax = self._add_map("before_softmax")
        self.after_softmax = self._add_map("after_softmax")

    def _add_map(self, name: str) -> keras.Variable:
        initializer = keras.initializers.RandomNormal(stddev=self.init_stddev)
        return self.add_weight(
            shape=(self.num_heads, self.num_heads), initializer=initializer, name=name
        )

    @override
    def attend(
        self,
        queries: tf.Tensor,
        keys: tf.Tensor,
        values: tf.Tensor,
        bias: tf.Tensor | None,
        training: bool,
    ) -> tf.Tensor:
        """Mixes `values`; arguments as for ordinary attention."""
        scale = tf.cast((self.width // self.num_heads) ** -0.5, queries.dtype)
        scores = _talk(tf.matmul(queries * scale, keys, transpose_b=True), self.before_softmax)
        if bias is not None:
            scores += tf.cast(bias, scores.dtype)
        weights = tf.cast(tf.nn.softmax(tf.cast(scores, tf.float32)), values.dtype)  # [B, H, S, S]
        weights = _talk(weights, self.after_softmax)
        return tf.matmul(self.dropout(weights, training=training), values)


def _talk(heads: tf.Tensor, weights: keras.Variable) -> tf.Tensor:
    """Maps `[B, H, S, S]` over the heads by the identity and what was learnt beside it."""
    mapping = tf.cast(tf.convert_to_tensor(weights), heads.dtype)  # [H, H]
    return heads + tf.einsum("bhqk,hg->bgqk", heads, mapping)  # [B, H, S, S]
