"""The feed-forward part of a block.

Shapes:
    B  examples in the batch
    S  positions
    D  width of the model
    N  tokens of all examples, where padding is left out
"""

import functools
from collections.abc import Callable
from typing import Any

import keras
import tensorflow as tf

from quintain.kernels import dropout as dropout_kernel
from quintain.kernels import feed_forward as kernel
from quintain.modeling.activations import gated
from quintain.nlp.modeling import activations
from quintain.nlp.modeling.layers import dropout, own_classes, projection


def apply_activation(activation: Callable[[tf.Tensor], tf.Tensor], x: tf.Tensor) -> tf.Tensor:
    """Returns an activation's value; under bfloat16 it is computed in float32, as in BERT."""
    if x.dtype != tf.bfloat16 or activation is keras.activations.relu:
        return activation(x)
    return tf.cast(activation(tf.cast(x, tf.float32)), x.dtype)


class FeedForward(keras.layers.Layer):
    """Two dense layers with an activation between them, applied to each position.

    Of a gated activation, `swiglu` or `glu`, the first layer is twice as wide as what it gives.
    """

    def __init__(
        self,
        width: int,
        intermediate_size: int,
        *,
        activation: Any,
        dropout_rate: float = 0.0,
        dense_options: Callable[[], dict[str, Any]] = dict,
        **kwargs: Any,
    ) -> None:
        """Creates the layers.

        Args:
            width: Width of outputs.
            intermediate_size: Width between the two layers.
            activation: Keras' name of the activation, `swiglu`, or a function.
            dropout_rate: Share of the intermediate values that training drops.
            dense_options: Returns what each of both layers is made with, such as its initializers.
            **kwargs: Arguments of a Keras layer.
        """
        super().__init__(**kwargs)
        self.activation = activations.get(activation)
        num_parts = 2 if self.activation in gated.GATED else 1
        self.expand = projection.Projection(
            intermediate_size, num_parts=num_parts, name="expand", **dense_options()
        )
        self.contract = projection.Projection(width, name="contract", **dense_options())
        self.dropout = dropout.Dropout(dropout_rate)
        self.intermediate_size = intermediate_size

    def build(self, input_shape: Any) -> None:
        """Builds both layers."""
        self.expand.build(input_shape)
        self.contract.build((*input_shape[:-1], self.intermediate_size))

    def call(self, inputs: tf.Tensor, training: bool = False) -> tf.Tensor:
        """Maps `[..., D]` to `[..., D]`, and `[N, D]` to `[N, D]`."""
        if self._can_fuse(inputs):
            compute = functools.partial(
                kernel.expand,
                is_gelu=self.activation is activations.approximate_gelu,
                draw=self.dropout.draw(training) or dropout_kernel.Draw(),
            )
            return self.contract(self.expand(inputs, compute=compute))
        intermediate = apply_activation(self.activation, self.expand(inputs))
        return self.contract(self.dropout(intermediate, training=training))

    def _can_fuse(self, inputs: tf.Tensor) -> bool:
        """Returns whether a native kernel computes what follows the first product."""
        fused = (keras.activations.relu, activations.approximate_gelu)
        return (
            dropout.can_be_native(inputs)
            and self.activation in fused
            and self.expand.use_bias
            and self.expand.activity_regularizer is None
            and not own_classes.is_changed(self.expand, projection.Projection)
            and not own_classes.is_changed(self.dropout, dropout.Dropout)
        )
