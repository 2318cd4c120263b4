"""Activations of models of text by name."""

from collections.abc import Callable
from typing import Any

import keras

from quintain.modeling import activations, tf_utils
from quintain.modeling.activations import approximate_gelu as approximate_gelu

Activation = Callable[..., Any]


def get_approximate(identifier: Any) -> Activation:
    """Returns what `tf_utils.get_activation` does, for BERT; `gelu` is `approximate_gelu`."""
    if isinstance(identifier, str) and identifier.lower() == "gelu":
        return approximate_gelu
    return tf_utils.get_activation(identifier)


def get_name(activation: Activation) -> Any:
    """Returns the name of an activation; its config where it has none."""
    if activation in (approximate_gelu, activations.gelu):
        return "gelu"
    return keras.activations.serialize(activation)
