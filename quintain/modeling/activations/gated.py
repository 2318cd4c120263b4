"""Gated linear units: one half of the numbers decides what passes of the other."""

from typing import Final

import keras
import tensorflow as tf


@keras.saving.register_keras_serializable("quintain")
def swiglu(x: tf.Tensor) -> tf.Tensor:
    """`silu(a) * b` of the halves `a` and `b` of the last axis: `[..., 2 F]` gives `[..., F]`.

    Source: https://arxiv.org/abs/2002.05202.
    """
    gate, values = tf.split(x, 2, axis=-1)
    return tf.nn.silu(gate) * values


GATED: Final = (swiglu, keras.activations.glu)
"""Activations of twice the width of their outputs."""
