"""Feed-forward block with block-diagonal matrices.

Shapes:
    B  examples in the batch
    S  positions
    D  width of the model
    F  width between the layers
    N  blocks
"""

from typing import Any

import keras
import tensorflow as tf
from typing_extensions import override

from quintain import errors
from quintain.nlp.modeling.layers import dropout, feed_forward, layer_arguments


@keras.saving.register_keras_serializable(package="Text")
class BlockDiagFeedforward(keras.layers.Layer):
    """Two dense layers of which the second has blocks, and a mixing of their outputs.

    Source:
        Dao et al., 2022 (https://arxiv.org/abs/2204.00595).
    """

    def __init__(
        self,
        intermediate_size: int,
        intermediate_activation: Any,
        dropout: float,
        num_blocks: int = 1,
        apply_mixing: bool = True,
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
            ConfigError: If `num_blocks` does not divide `intermediate_size`.
        """
        given = layer_arguments.LayerArguments(locals())
        super().__init__(**kwargs)
        if intermediate_size % num_blocks:
            raise errors.ConfigError(
                f"Intermediate_size ({intermediate_size}) isn't a multiple of num_blocks "
                f"({num_blocks})."
            )
        self._given = given
        self._activation = keras.activations.get(intermediate_activation)

    @override
    def build(self, input_shape: Any) -> None:
        given, width = self._given, input_shape[-1]
        inner, outer = given.intermediate_size // given.num_blocks, width // given.num_blocks

        def build_dense(name: str, equation: str, size: int, bias_axes: str | None) -> Any:
            return keras.layers.EinsumDense(
                equation,
                output_shape=(None, given.num_blocks, size),
                bias_axes=bias_axes,
                name=name,
                **given.for_dense(),
            )

        self._intermediate_dense = build_dense("intermediate", "abc,cde->abde", inner, "de")
        self._intermediate_dense.build(input_shape)
        self._output_dense = build_dense("output", "abde,deo->abdo", outer, "do")
        self._output_dense.build((None, None, given.num_blocks, inner))
        self._output_mixing = None
        if given.apply_mixing:
            self._output_mixing = build_dense("output_mixing", "abdo,de->abeo", outer, None)
            self._output_mixing.build((None, None, given.num_blocks, outer))
        self._output_dropout = dropout.Dropout(given.dropout)
        self.built = True

    @override
    def call(self, inputs: tf.Tensor, training: bool | None = None) -> tf.Tensor:
        """Maps `[B, S, D]` to `[B, S, D]`."""
        inner = self._intermediate_dense(inputs)  # [B, S, N, F / N]
        output = self._output_dense(feed_forward.apply_activation(self._activation, inner))
        if self._output_mixing is not None:
            output = self._output_mixing(output)
        output = tf.ensure_shape(tf.reshape(output, tf.shape(inputs)), inputs.shape)
        return self._output_dropout(output, training=training)

    @override
    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), **self._given.to_config()}
