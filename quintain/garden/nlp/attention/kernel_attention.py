"""Kernel attention (Performer): linear time, by features of queries and keys.

Shapes:
    B  examples in the batch
    Q  query positions
    K  key positions
    C  positions of a chunk
    T  chunks
    H  attention heads
    M  features
    v  width of a head's values
"""

import math
from collections.abc import MutableMapping
from typing import Any, Final

import keras
import numpy as np
import tensorflow as tf
from typing_extensions import override

from quintain import errors
from quintain.garden.nlp.attention import kernel_features
from quintain.nlp.modeling.layers import attention_cache, layer_arguments

create_projection_matrix = kernel_features.create_projection_matrix
expplus = kernel_features.expplus

_STABILIZER: Final = 1e-6
"""Added to what is divided by."""


@keras.saving.register_keras_serializable(package="Text")
class KernelMask(keras.layers.Layer):
    """Gives a mask `[B, S]` the type of the inputs, for `KernelAttention`."""

    @override
    def call(self, inputs: tf.Tensor, mask: tf.Tensor) -> tf.Tensor:
        """Returns `mask` in the dtype of `inputs`."""
        return tf.cast(mask, inputs.dtype)


def pad_to_chunk_length(
    tensor: tf.Tensor, axis: int, chunk_length: int, padding: str | None = None
) -> tf.Tensor:
    """Pads a dimension with zeros to a multiple of the chunks' length.

    Args:
        tensor: What is padded.
        axis: The dimension.
        chunk_length: Positions of a chunk.
        padding: Where: `left` or `right`; None for nowhere.

    Raises:
        ConfigError: If there is no such place.
    """
    if padding is None:
        return tensor
    if padding not in ("left", "right"):
        raise errors.ConfigError(
            f'padding: got {padding!r}. Illegal padding value; must be one of "left", "right" or '
            "None."
        )
    missing = -tf.shape(tensor)[axis] % chunk_length
    paddings: list[Any] = [[0, 0]] * len(tensor.shape)
    paddings[axis] = [missing, 0] if padding == "left" else [0, missing]
    return tf.pad(tensor, paddings)


def split_tensor_into_chunks(tensor: tf.Tensor, axis: int, chunk_length: int) -> tf.Tensor:
    """Turns a dimension into two: chunks, and the positions of each."""
    shape = tf.unstack(tf.shape(tensor))
    axis %= len(shape)
    chunks = [shape[axis] // chunk_length, chunk_length]
    return tf.reshape(tensor, [*shape[:axis], *chunks, *shape[axis + 1 :]])


def weighted_window_sum(
    tensor: tf.Tensor, window_length: int, window_weights: tf.Tensor
) -> tf.Tensor:
    """Returns for each chunk the weighted sum of the last ones.

    Args:
        tensor: `[B, T, ...]`.
        window_length: How many chunks, the own one included.
        window_weights: `[window_length]`, that of the own chunk last.
    """
    none = [[0, 0]] * (len(tensor.shape) - 2)
    padded = tf.pad(tensor, [[0, 0], [window_length - 1, 0], *none])
    count = tf.shape(tensor)[1]
    parts = [padded[:, first : first + count] for first in range(window_length)]
    return tf.add_n([part * window_weights[i] for i, part in enumerate(parts)])


def rectangular_window_sum(tensor: tf.Tensor, window_length: int) -> tf.Tensor:
    """Returns for each chunk of `[B, T, ...]` the sum of the last `window_length` ones."""
    return weighted_window_sum(tensor, window_length, tf.ones([window_length], tensor.dtype))


def causal_windowed_performer_attention(
    query_matrix: tf.Tensor,
    key_matrix: tf.Tensor,
    value_matrix: tf.Tensor,
    chunk_length: int,
    window_length: int,
    window_decay: float | None = None,
    padding: str | None = None,
    cache: MutableMapping[str, tf.Tensor] | None = None,
) -> tf.Tensor:
    """Attends from each position to those of its chunk and of some chunks before.

    Args:
        query_matrix: Features of queries, `[B, Q, H, M]`.
        key_matrix: Features of keys, `[B, Q, H, M]`.
        value_matrix: `[B, Q, H, v]`.
        chunk_length: Positions of a chunk.
        window_length: Chunks, the own one included.
        window_decay: How much each chunk counts of what the next one does; None for as much.
        padding: `left` or `right`, where the number of positions is no multiple of a chunk's.
        cache: `kv` `[B, H, v, M]` and `k_sum` `[B, H, M]`, the sums of the positions before, which
            count less by `window_decay`; it is changed. None attends as said.

    Returns:
        `[B, Q, H, v]`.

    Raises:
        ConfigError: If there is a cache and `window_decay` is not in `[0, 1]`.
    """
    if cache is not None:
        return _continue(query_matrix, key_matrix, value_matrix, window_decay, cache)
    padded = [
        pad_to_chunk_length(part, 1, chunk_length, padding)
        for part in (query_matrix, key_matrix, value_matrix)
    ]
    queries, keys, values = (split_tensor_into_chunks(part, 1, chunk_length) for part in padded)
    decay = tf.constant(1.0 if window_decay is None else window_decay, values.dtype)
    weights = tf.pow(decay, tf.range(window_length - 1, -1, -1, dtype=values.dtype))
    products = tf.einsum("btchm,btchv->bthmv", keys, values)
    products = weighted_window_sum(products, window_length, weights)
    sums = weighted_window_sum(tf.reduce_sum(keys, axis=2), window_length, weights)  # [B, T, H, M]
    total = tf.einsum("btchm,bthmv->btchv", queries, products)
    count = tf.einsum("btchm,bthm->btch", queries, sums)[..., tf.newaxis]
    found = tf.reshape(total / (count + _STABILIZER), tf.shape(padded[2]))
    return found[:, : tf.shape(value_matrix)[1]]


def _continue(
    queries: tf.Tensor,
    keys: tf.Tensor,
    values: tf.Tensor,
    decay: float | None,
    cache: MutableMapping[str, tf.Tensor],
) -> tf.Tensor:
    if decay is None or not 0.0 <= decay <= 1.0:
        raise errors.ConfigError(
            f"window_decay: got {decay!r}; with a cache it should be in (0.0, 1.0) and not None."
        )
    cache["kv"] = decay * cache["kv"] + tf.einsum("bkhm,bkhv->bhvm", keys, values)
    cache["k_sum"] = decay * cache["k_sum"] + tf.reduce_sum(keys, axis=1)
    count = tf.einsum("bqhm,bhm->bqh", queries, cache["k_sum"])[..., tf.newaxis]
    return tf.einsum("bqhm,bhvm->bqhv", queries / (count + _STABILIZER), cache["kv"])


@keras.saving.register_keras_serializable(package="Text")
class KernelAttention(attention_cache.CacheInPlace, keras.layers.MultiHeadAttention):
    """Keras' attention with features of queries and keys in place of the softmax.

    Source:
        Choromanski et al., 2021 (https://arxiv.org/abs/2009.14794).
    """

    def __init__(
        self,
        feature_transform: str = "exp",
        num_random_features: int = 256,
        seed: int = 0,
        redraw: bool = False,
        is_short_seq: bool = False,
        begin_kernel: int = 0,
        scale: float | None = None,
        scale_by_length: bool = False,
        use_causal_windowed: bool = False,
        causal_chunk_length: int = 1,
        causal_window_length: int = 3,
        causal_window_decay: float | None = None,
        causal_padding: str | None = None,
        **kwargs: Any,
    ) -> None:
        """Checks the options, and draws the projection.

        Raises:
            ConfigError: If there is no such transform, or options exclude each other.
        """
        given = layer_arguments.LayerArguments(locals())
        super().__init__(**kwargs)
        if feature_transform not in kernel_features.NAMES:
            raise errors.ConfigError(
                f"feature_transform: got {feature_transform!r}. Unsupported feature_transform; the "
                f"supported ones are {', '.join(kernel_features.NAMES)}."
            )
        if num_random_features <= 0 and redraw:
            raise errors.ConfigError(
                "redraw: got True. There is nothing to redraw when num_random_features <= 0."
            )
        if use_causal_windowed and is_short_seq:
            raise errors.ConfigError(
                "is_short_seq: got True. use_causal_windowed and short_seq methods are mutually "
                "exclusive."
            )
        self._given = given
        self.use_causal_windowed = use_causal_windowed
        self.causal_chunk_length = causal_chunk_length
        self.causal_window_length = causal_window_length
        self.causal_window_decay = causal_window_decay
        self.causal_padding = causal_padding
        self._scale = 1.0 / math.sqrt(self._key_dim) if scale is None else scale
        self._projection_matrix: np.ndarray | None = None
        if num_random_features > 0:
            with tf.init_scope():
                seeds = tf.constant([seed, seed + 1])
                matrix = create_projection_matrix(num_random_features, self._key_dim, seeds)
                self._projection_matrix = matrix.numpy()

    @override
    def build(self, query_shape: Any, value_shape: Any, key_shape: Any = None) -> None:
        super().build(query_shape, value_shape, key_shape)
        self._output_dense_softmax: Any = None
        if self._given.begin_kernel > 0:
            self._output_dense_softmax = self._make_output_dense(
                query_shape, self._get_common_kwargs_for_sublayer(), "attention_output_softmax"
            )
            self._output_dense_softmax.build((*query_shape[:-1], self._num_heads, self._value_dim))

    @override
    def call(
        self,
        query: tf.Tensor,
        value: tf.Tensor,
        key: tf.Tensor | None = None,
        attention_mask: tf.Tensor | None = None,
        cache: MutableMapping[str, tf.Tensor] | None = None,
        training: bool | None = False,
    ) -> tf.Tensor:
        """Attends.

        Args:
            query: `[B, Q, D]`.
            value: `[B, K, D]`.
            key: `[B, K, D]`; None for `value`.
            attention_mask: `[B, K]`, 0 for keys that do not count.
            cache: Sums of the positions before, see `causal_windowed_performer_attention`.
            training: Whether to apply dropout.

        Returns:
            `[B, Q, D]`.

        Raises:
            ValueError: If there is a cache that the options, or training, have no use for.
        """
        cache = attention_cache.open_cache(cache)
        if cache is not None:
            self._check_cache(training)
        key = value if key is None else key
        if attention_mask is not None:
            attention_mask = tf.cast(attention_mask, self.compute_dtype)
        queries = self._query_dense(query)  # [B, Q, H, d]
        keys, values = self._key_dense(key), self._value_dense(value)
        given, name = self._given, self._given.feature_transform
        first = given.begin_kernel
        is_short = given.is_short_seq
        rest = queries[:, first:] if first > 0 else queries
        mixed = self._mix(rest, keys, values, attention_mask, name, is_short, cache, training)
        output = self._output_dense(self._dropout_layer(mixed, training=training))
        if first <= 0:
            return output
        mixed = self._mix(
            queries[:, :first], keys, values, attention_mask, "identity", True, None, training
        )
        mixed = self._dropout_layer(mixed, training=training)
        return tf.concat([self._output_dense_softmax(mixed), output], axis=1)

    def _check_cache(self, training: bool | None) -> None:
        given = self._given
        reasons = {
            "training is True": training,
            "use_causal_windowed is False": not self.use_causal_windowed,
            "begin_kernel is set": given.begin_kernel,
            "feature_transform is expplus": given.feature_transform == "expplus",
        }
        for reason, holds in reasons.items():
            if holds:
                raise ValueError(f"cache: got one. Cache is not supported when {reason}.")

    def _mix(
        self,
        queries: tf.Tensor,
        keys: tf.Tensor,
        values: tf.Tensor,
        mask: tf.Tensor | None,
        name: str,
        is_short: bool,
        cache: Any,
        training: bool | None,
    ) -> tf.Tensor:
        """Returns `[B, Q, H, v]`."""
        given = self._given
        projection: Any = self._projection_matrix
        if given.redraw and training:
            projection = create_projection_matrix(given.num_random_features, self._key_dim)
        scale: Any = tf.constant(self._scale, queries.dtype)
        if given.scale_by_length:
            length = tf.math.log(tf.reduce_sum(mask, axis=-1))
            scale *= tf.reshape(length / math.log(512), [-1, 1, 1, 1])
        if is_short:
            queries *= scale
        else:
            queries, keys = queries * tf.sqrt(scale), keys * tf.sqrt(scale)
        key_features = kernel_features.transform(
            name, keys, queries, is_query=False, projection=projection
        )
        features = kernel_features.transform(
            name, queries, keys, is_query=True, projection=projection
        )
        if mask is not None:
            key_features *= mask[:, :, tf.newaxis, tf.newaxis]
        if is_short:
            weights = tf.nn.softmax(tf.einsum("bqhm,bkhm->bhqk", features, key_features))
            return tf.einsum("bhqk,bkhv->bqhv", weights, values)
        if self.use_causal_windowed:
            return causal_windowed_performer_attention(
                features,
                key_features,
                values,
                chunk_length=self.causal_chunk_length,
                window_length=self.causal_window_length,
                window_decay=self.causal_window_decay,
                padding=self.causal_padding,
                cache=cache,
            )
        products = tf.einsum("bkhm,bkhv->bhmv", key_features, values)
        count = tf.einsum("bqhm,bhm->bqh", features, tf.reduce_sum(key_features, axis=1))
        total = tf.einsum("bqhm,bhmv->bqhv", features, products)
        return total / (count + _STABILIZER)[..., tf.newaxis]

    @override
    def get_config(self) -> dict[str, Any]:
        own = {**self._given.to_config(), "scale": self._scale}
        base = super().get_config()
        return {**base, **own}
