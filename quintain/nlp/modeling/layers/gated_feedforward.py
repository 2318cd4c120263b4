"""The feed-forward part of a block, with a gate.

Shapes:
    B  examples in the batch
    S  positions
    D  width of the model
    F  width between the layers
    N  tokens of all examples, where padding is left out
"""

from typing import Any

import keras
import tensorflow as tf
from typing_extensions import override

from quintain.config import gin_io
from quintain.nlp.modeling.layers import attention, dropout


@gin_io.configurable
class GatedFeedforward(keras.layers.Layer):
    """Two dense layers; the product of an activated and a linear projection lies between them.

    `contract(activation(expand(x)) * gate(x))`, with biases.

    Source:
        Shazeer, 2020 (https://arxiv.org/abs/2002.05202).
    """

    def __init__(
        self,
        width: int,
        intermediate_size: int,
        *,
        activation: str = "gelu",
        dropout_rate: float = 0.0,
        use_gate: bool = True,
        **kwargs: Any,
    ) -> None:
        """Creates the layers.

        Args:
            width: Width of inputs and outputs.
            intermediate_size: Width between the layers.
            activation: Keras' name of the activation.
            dropout_rate: Share of the intermediate values that training drops.
            use_gate: Whether there is a gate; without one it is an ordinary feed-forward part.
            **kwargs: Arguments of a Keras layer.
        """
        super().__init__(**kwargs)
        self.activation = keras.activations.get(activation)
        self.intermediate_size = intermediate_size
        self.use_gate = use_gate
        self.expand = attention.Projection(
            intermediate_size, num_parts=2 if use_gate else 1, use_bias=True, name="expand"
        )
        self.contract = attention.Projection(width, use_bias=True, name="contract")
        self.dropout = dropout.Dropout(dropout_rate)

    @override
    def build(self, input_shape: Any) -> None:
        self.expand.build(input_shape)
        self.contract.build((*input_shape[:-1], self.intermediate_size))

    @override
    def call(self, inputs: tf.Tensor, training: bool = False) -> tf.Tensor:
        """Maps `[B, S, D]` to `[B, S, D]`, and `[N, D]` to `[N, D]`."""
        expanded = self.expand(inputs)  # [B, S, F], or with a gate [B, S, 2 * F]
        if self.use_gate:
            values, gate = tf.split(expanded, 2, axis=-1)  # [B, S, F]
            expanded = self.activation(values) * gate
        else:
            expanded = self.activation(expanded)
        return self.contract(self.dropout(expanded, training=training))
