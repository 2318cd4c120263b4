"""Talking-heads attention: scores and weights are mixed across heads.

Shapes:
    B  examples in the batch
    Q  query positions
    K  key positions
    H  attention heads
"""

from typing import Any

import keras
import tensorflow as tf
from typing_extensions import override

from quintain.config import gin_io
from quintain.garden.nlp.attention import einsum_attention
from quintain.modeling import tf_utils


@keras.saving.register_keras_serializable(package="Text")
@gin_io.configurable
class TalkingHeadsAttention(einsum_attention.EinsumAttention):
    """Keras' attention with a linear map over the heads before and after the softmax.

    With `L` and `W` the `[H, H]` maps, `J` scores and `A` weights of shape `[B, H, Q, K]`:

        A = softmax(sum_h J[:, h] L[h, :] + bias);  weights = sum_h A[:, h] W[h, :]

    Source:
        Shazeer et al., 2020 (https://arxiv.org/abs/2003.02436).
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)

    @override
    def _build_attention(self, rank: int) -> None:
        super()._build_attention(rank)
        self._pre_softmax_weight = self._add_map("pre_softmax_weight")
        self._post_softmax_weight = self._add_map("post_softmax_weight")

    def _add_map(self, name: str) -> keras.Variable:
        return self.add_weight(
            shape=(self._num_heads, self._num_heads),
            initializer=tf_utils.clone_initializer(self._kernel_initializer),
            regularizer=self._kernel_regularizer,
            constraint=self._kernel_constraint,
            name=name,
        )

    @override
    def map_scores(self, scores: tf.Tensor) -> tf.Tensor:
        return self._talk(scores, self._pre_softmax_weight)

    @override
    def map_weights(self, weights: tf.Tensor) -> tf.Tensor:
        return self._talk(weights, self._post_softmax_weight)

    def _talk(self, x: tf.Tensor, weights: keras.Variable) -> tf.Tensor:
        """Maps the dimension of the heads, which is before those of queries and keys."""
        after = "xyzuvw"[: 2 * len(self._attention_axes)]
        mapping = tf.convert_to_tensor(weights)  # [H, H]
        return tf.einsum(f"...h{after},hg->...g{after}", x, tf.cast(mapping, x.dtype))
