"""Layers whose parts create their weights only when called, as parts of Keras 2 did."""

from typing import Any

import keras


def lacks_weights(layer: keras.layers.Layer) -> bool:
    """Returns True if a layer or a part of it has weights to make yet.

    A layer that creates its parts in `build` counts as built while they are not.

    Example:
        >>> lacks_weights(keras.layers.Dense(2)), lacks_weights(keras.layers.Dropout(0.1))
        (True, False)
    """
    parts = layer._flatten_layers()
    return any(not part.built and not _has_no_weights(part) for part in parts)


def make_weights(layer: keras.layers.Layer, shape: tuple[int | None, ...]) -> None:
    """Makes the weights of a layer with one input, of this shape, if it lacks any."""
    if not layer.built:
        layer.build(shape)
    if lacks_weights(layer):
        layer(keras.Input(shape[1:]))


def _has_no_weights(layer: Any) -> bool:
    return getattr(type(layer).build, "_is_default", False)
