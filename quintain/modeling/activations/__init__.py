"""Activations that configs can name."""

from quintain.modeling.activations.gated import swiglu
from quintain.modeling.activations.gelu import approximate_gelu, gelu
from quintain.modeling.activations.mish import mish
from quintain.modeling.activations.relu import relu6
from quintain.modeling.activations.sigmoid import hard_sigmoid
from quintain.modeling.activations.swish import hard_swish, identity, simple_swish

__all__ = [
    "approximate_gelu",
    "gelu",
    "hard_sigmoid",
    "hard_swish",
    "identity",
    "mish",
    "relu6",
    "simple_swish",
    "swiglu",
]
