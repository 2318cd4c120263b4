"""Activations of models of text by name."""

from collections.abc import Callable
from typing import Any, Literal, TypeAlias

import keras

from quintain.modeling import activations, tf_utils
from quintain.modeling.activations import approximate_gelu as approximate_gelu

Activation = Callable[..., Any]

Name: TypeAlias = Literal[
    "approximate_gelu", "celu", "elu", "exponential", "gelu", "hard_shrink", "hard_sigmoid",
    "hard_silu", "hard_swish", "hard_tanh", "identity", "leaky_relu", "linear", "log_sigmoid",
    "log_softmax", "mish", "relu", "relu6", "selu", "sigmoid", "silu", "simple_swish",
    "soft_shrink", "softmax", "softplus", "softsign", "sparse_plus", "sparse_sigmoid", "sparsemax",
    "squareplus", "swish", "tanh", "tanh_shrink", "threshold",
]  # fmt: skip
"""Names that heads may have: Keras', and those of `quintain.modeling.activations`."""

FeedForwardName: TypeAlias = Literal[Name, "glu", "swiglu"]
"""Names that feed-forward parts may have, which are twice as wide before a gated linear unit."""


def get(identifier: Any) -> Activation:
    """Returns an activation by its name; Keras', where there are two of that name."""
    if isinstance(identifier, str) and not hasattr(keras.activations, identifier):
        return tf_utils.get_activation(identifier)
    activation: Activation = keras.activations.get(identifier)
    return activation


def get_approximate(identifier: Any) -> Activation:
    """Returns what `tf_utils.get_activation` does, for BERT; `gelu` is `approximate_gelu`."""
    if isinstance(identifier, str) and identifier.lower() == "gelu":
        return approximate_gelu
    return tf_utils.get_activation(identifier)


def get_name(activation: Activation) -> Any:
    """Returns the name of an activation; its config where it has none."""
    if activation in (approximate_gelu, activations.gelu):
        return "gelu"
    name = getattr(activation, "__name__", "")
    if getattr(activations, name, None) is activation:
        return name
    return keras.activations.serialize(activation)
