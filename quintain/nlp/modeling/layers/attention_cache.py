"""Keys and values that attention keeps while it decodes one position at a time.

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


class _Held:
    """Carries a cache past Keras, which gives layers copies of dictionaries."""

    def __init__(self, cache: MutableMapping[str, tf.Tensor]) -> None:
        self.cache = cache


class CacheInPlace(keras.layers.Layer):
    """A layer that changes the dictionary it is given as `cache`."""

    @override
    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if isinstance(kwargs.get("cache"), MutableMapping):
            kwargs["cache"] = _Held(kwargs["cache"])
        return super().__call__(*args, **kwargs)


def open_cache(cache: Any) -> Any:
    """Returns the `cache` that a `CacheInPlace` was called with, within its `call`."""
    return cache.cache if isinstance(cache, _Held) else cache


def update_cache(
    key: tf.Tensor, value: tf.Tensor, cache: MutableMapping[str, tf.Tensor], step: Any
) -> tuple[tf.Tensor, tf.Tensor]:
    """Puts the keys and values of new positions into a cache, and returns those of all.

    Args:
        key: `[B, Q, H, D / H]`, of the new positions.
        value: Likewise.
        cache: `key` and `value`, `[B, K, H, D / H]`; it is changed.
        step: Place of the one new position in a cache of fixed length; None appends.
    """
    new = {"key": key, "value": value}
    for name, entries in new.items():
        former = tf.cast(cache[name], entries.dtype)
        if step is None:
            cache[name] = tf.concat([former, entries], axis=1)
        else:
            place = tf.one_hot(step, tf.shape(former)[1], dtype=entries.dtype)  # [K]
            cache[name] = former + entries * tf.reshape(place, [1, -1, 1, 1])
    return cache["key"], cache["value"]
