"""Position embeddings: learnt ones, sinusoids, and biases of attention.

Shapes:
    B  examples in the batch
    S  positions
    Q  query positions
    K  key positions
    H  attention heads
    D  width of the model
"""

import math
from typing import Any

import keras
import tensorflow as tf
from typing_extensions import override

from quintain import errors
from quintain.modeling import tf_utils
from quintain.nlp.modeling.layers import layer_arguments

Initializer = keras.initializers.Initializer


@keras.saving.register_keras_serializable(package="Text")
class PositionEmbedding(keras.layers.Layer):
    """Embeddings of positions, shaped as the input, to be added to it.

    Source:
        Devlin et al., 2019 (https://arxiv.org/abs/1810.04805).
    """

    def __init__(
        self,
        max_length: int,
        initializer: Any = "glorot_uniform",
        seq_axis: int = 1,
        **kwargs: Any,
    ) -> None:
        """Checks the options.

        Raises:
            ConfigError: If `max_length` is None.
        """
        given = layer_arguments.LayerArguments(locals())
        super().__init__(**kwargs)
        if max_length is None:
            raise errors.ConfigError("`max_length` must be an Integer, not `None`.")
        self._given = given

    @override
    def build(self, input_shape: Any) -> None:
        self._position_embeddings = self.add_weight(
            shape=(self._given.max_length, input_shape[-1]),
            initializer=self._given.initializer,
            autocast=False,
            name="embeddings",
        )
        self.built = True

    @property
    def embeddings(self) -> keras.Variable:
        """The embeddings, `[max_length, D]`."""
        return self._position_embeddings

    @override
    def call(self, inputs: tf.Tensor) -> tf.Tensor:
        """Returns the embeddings of the positions of `[B, S, D]`, repeated to its shape."""
        axis, shape = self._given.seq_axis, tf.shape(inputs)
        table = tf.cast(tf.convert_to_tensor(self._position_embeddings), self.compute_dtype)
        rows = table[: shape[axis]]  # [S, D]
        places: list[Any] = [1] * inputs.shape.rank
        places[axis], places[-1] = shape[axis], table.shape[-1]
        found = tf.broadcast_to(tf.reshape(rows, places), shape)
        return tf.ensure_shape(found, inputs.shape)

    @override
    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), **self._given.to_config()}


@keras.saving.register_keras_serializable(package="Text")
class RelativePositionEmbedding(keras.layers.Layer):
    """Sinusoids, in float32 whatever the precision policy.

    Example:
        >>> RelativePositionEmbedding(4)(None, length=2).numpy()[0].tolist()
        [0.0, 0.0, 1.0, 1.0]

    Source:
        Vaswani et al., 2017, section 3.5 (https://arxiv.org/abs/1706.03762).
    """

    def __init__(
        self,
        hidden_size: int,
        min_timescale: float = 1.0,
        max_timescale: float = 1.0e4,
        **kwargs: Any,
    ) -> None:
        given = layer_arguments.LayerArguments(locals())
        super().__init__(**{"dtype": "float32", **kwargs})
        self._given = given

    @override
    def call(self, inputs: tf.Tensor | None, length: Any = None) -> tf.Tensor:
        """Returns the sinusoids of positions from 0.

        Args:
            inputs: Its second dimension is the number of positions; or None.
            length: The number of positions; if both are given, it has to be the same.

        Returns:
            `[S, hidden_size]`: sines, then cosines.

        Raises:
            ValueError: If neither is given, or they differ.
        """
        if inputs is None and length is None:
            raise ValueError("inputs: got None without `length`; one of them must be given.")
        if inputs is not None:
            found = tf_utils.get_shape_list(inputs)[1]
            if length is not None and length != found:
                raise ValueError(
                    f"length: got {length}, but `length` must equal to input_shape[1] of `inputs`, "
                    f"{found}."
                )
            length = found
        given = self._given
        count = given.hidden_size // 2
        ratio = math.log(given.max_timescale / given.min_timescale)
        steps = tf.range(count, dtype=tf.float32) / (tf.cast(count, tf.float32) - 1)
        frequencies = given.min_timescale * tf.exp(-ratio * steps)
        angles = tf.cast(tf.range(length), tf.float32)[:, tf.newaxis] * frequencies
        return tf.concat([tf.sin(angles), tf.cos(angles)], axis=1)

    @override
    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), **self._given.to_config()}


def _find_bucket(
    distance: tf.Tensor, *, bidirectional: bool, num_buckets: int, max_distance: int
) -> tf.Tensor:
    """Returns the buckets of distances: one for each short one, then growing ones.

    Args:
        distance: int32: the place that is attended to less the place that attends.
        bidirectional: Whether later places have buckets of their own; otherwise they count as 0.
        num_buckets: Buckets in all.
        max_distance: Longest distance that has a bucket; farther ones share it.
    """
    back = -distance
    first = tf.zeros_like(back)
    if bidirectional:
        num_buckets //= 2
        first = tf.cast(back < 0, tf.int32) * num_buckets
        back = tf.abs(back)
    back = tf.maximum(back, 0)
    num_exact = num_buckets // 2
    ratio = tf.cast(back, tf.float32) / num_exact
    share = tf.math.log(ratio) / math.log(max_distance / num_exact)
    far = num_exact + tf.cast(share * (num_buckets - num_exact), tf.int32)
    far = tf.minimum(far, num_buckets - 1)
    return first + tf.where(back < num_exact, back, far)


@keras.saving.register_keras_serializable(package="Text")
class RelativePositionBias(keras.layers.Layer):
    """Bias of each head's scores by the distance of two positions, as in T5.

    Source:
        Raffel et al., 2020, section 2.1 (https://arxiv.org/abs/1910.10683).
    """

    def __init__(
        self,
        num_heads: int,
        relative_attention_num_buckets: int = 32,
        relative_attention_max_distance: int = 128,
        bidirectional: bool = True,
        embeddings_initializer: Any = None,
        **kwargs: Any,
    ) -> None:
        embeddings_initializer = embeddings_initializer or keras.initializers.TruncatedNormal(
            stddev=1.0
        )
        given = layer_arguments.LayerArguments(locals())
        super().__init__(**kwargs)
        self._given = given
        self.num_heads = num_heads
        self.relative_attention_num_buckets = relative_attention_num_buckets
        self.relative_attention_max_distance = relative_attention_max_distance
        self.bidirectional = bidirectional
        self._relative_attention_bias = self.add_weight(
            shape=(relative_attention_num_buckets, num_heads),
            initializer=given.embeddings_initializer,
            name="rel_embedding",
        )
        self.built = True

    @override
    def call(self, query: tf.Tensor, key: tf.Tensor) -> tf.Tensor:
        """Returns the biases `[B, H, Q, K]` for queries `[B, Q, D]` and keys `[B, K, D]`."""
        batch, num_queries = tf_utils.get_shape_list(query)[:2]
        num_keys = tf_utils.get_shape_list(key)[1]
        buckets = _find_bucket(
            tf.range(num_keys)[tf.newaxis] - tf.range(num_queries)[:, tf.newaxis],
            bidirectional=self.bidirectional,
            num_buckets=self.relative_attention_num_buckets,
            max_distance=self.relative_attention_max_distance,
        )
        found = tf.gather(tf.convert_to_tensor(self._relative_attention_bias), buckets)
        return tf.tile(tf.transpose(found, [2, 0, 1])[tf.newaxis], [batch, 1, 1, 1])

    @override
    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), **self._given.to_config()}
