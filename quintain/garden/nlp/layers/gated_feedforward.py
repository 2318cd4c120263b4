"""Gated feed-forward block, of one layer or several, with its own residual.

Shapes:
    B  examples in the batch
    S  positions
    D  width of the model
    F  width between the layers
    N  tokens of all examples, where padding is left out
"""

from typing import Any, Final

import keras
import tensorflow as tf
from typing_extensions import override

from quintain import errors
from quintain.config import gin_io
from quintain.garden.nlp.layers import util
from quintain.modeling import tf_utils
from quintain.nlp.modeling.layers import (
    dropout,
    feed_forward,
    layer_arguments,
    projection,
)
from quintain.nlp.modeling.layers.layer_normalization import LayerNormalization

_POSITIONS: Final = ("before_residual", "after_residual")


_GELU: Final = tf_utils.get_activation("gelu")


@keras.saving.register_keras_serializable(package="Text")
@gin_io.configurable
class GatedFeedforward(keras.layers.Layer):
    """Two dense layers; the product of an activated and a linear projection lies between them.

    `output(activation(intermediate(x)) * gate(x))`, then dropout; and, with
    `apply_output_layer_norm`, the sum with `x`, normalised.

    Source:
        Shazeer, 2020 (https://arxiv.org/abs/2002.05202).
    """

    def __init__(
        self,
        inner_dim: int = 768,
        inner_activation: Any = _GELU,
        dropout: float = 0.0,
        use_gate: bool = True,
        apply_output_layer_norm: bool = True,
        num_blocks: int = 1,
        dropout_position: str = "before_residual",
        kernel_initializer: Any = "glorot_uniform",
        bias_initializer: Any = "zeros",
        kernel_regularizer: Any = None,
        bias_regularizer: Any = None,
        activity_regularizer: Any = None,
        kernel_constraint: Any = None,
        bias_constraint: Any = None,
        **kwargs: Any,
    ) -> None:
        """Checks the options.

        Raises:
            ConfigError: If there is no such `dropout_position`.
        """
        inner_dim = kwargs.pop("intermediate_size", inner_dim)
        inner_activation = kwargs.pop("intermediate_activation", inner_activation)
        given = layer_arguments.LayerArguments(locals())
        util.filter_kwargs(kwargs)
        super().__init__(**kwargs)
        if dropout_position not in _POSITIONS:
            raise errors.ConfigError(
                f"dropout_position: got {dropout_position!r}, expected {' or '.join(_POSITIONS)}."
            )
        self._given = given
        self._activation = keras.activations.get(inner_activation)

    @override
    def build(self, input_shape: Any) -> None:
        given, width = self._given, input_shape[-1]

        def build_dense(name: str, size: int, index: int) -> projection.Projection:
            layer = projection.Projection(size, name=f"{name}_{index}", **given.for_dense())
            layer.build((None, width if size == given.inner_dim else given.inner_dim))
            # Checkpoints follow attributes, and see no layers in lists.
            setattr(self, layer.name, layer)
            return layer

        blocks = range(given.num_blocks)
        inner = given.inner_dim
        self._intermediate_dense = [build_dense("intermediate", inner, index) for index in blocks]
        self._gate_dense = [build_dense("gate", inner, index) for index in blocks if given.use_gate]
        self._output_dense = [build_dense("output", width, index) for index in blocks]
        self._output_layer_norm = []
        for index in blocks if given.apply_output_layer_norm else ():
            norm = LayerNormalization(1e-12, dtype="float32", name=f"output_layer_norm_{index}")
            norm.build(input_shape)
            setattr(self, norm.name, norm)
            self._output_layer_norm.append(norm)
        self._output_dropout = dropout.Dropout(given.dropout)
        self.built = True

    @override
    def call(self, inputs: tf.Tensor, training: bool | None = None) -> tf.Tensor:
        """Maps `[B, S, D]` to `[B, S, D]`, and `[N, D]` to `[N, D]`."""
        given, x = self._given, inputs
        for index in range(given.num_blocks):
            inner = feed_forward.apply_activation(
                self._activation, self._intermediate_dense[index](x)
            )
            if given.use_gate:
                inner *= self._gate_dense[index](x)
            output = self._output_dense[index](inner)
            if given.dropout_position == "before_residual":
                output = self._output_dropout(output, training=training)
            if x.dtype == tf.float32:
                output = tf.cast(output, tf.float32)
            if given.apply_output_layer_norm:
                output = self._output_layer_norm[index](output + x)
            if given.dropout_position == "after_residual":
                output = self._output_dropout(output, training=training)
            x = output
        return x

    @override
    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), **self._given.to_config()}
