"""The Transformer's block of an encoder under its first name; beside it that of a decoder."""

from typing import Any

import keras
import tensorflow as tf
from typing_extensions import override

from quintain.config import gin_io
from quintain.garden.nlp.layers import (
    transformer_decoder_block,
    transformer_encoder_block,
    util,
)
from quintain.nlp.modeling.layers import layer_arguments


@keras.saving.register_keras_serializable(package="Text")
class Transformer(transformer_encoder_block.TransformerEncoderBlock):
    """`TransformerEncoderBlock` with the names that its arguments had first."""

    def __init__(
        self,
        num_attention_heads: int,
        intermediate_size: int,
        intermediate_activation: Any,
        dropout_rate: float = 0.0,
        attention_dropout_rate: float = 0.0,
        output_range: int | None = None,
        kernel_initializer: Any = "glorot_uniform",
        bias_initializer: Any = "zeros",
        kernel_regularizer: Any = None,
        bias_regularizer: Any = None,
        activity_regularizer: Any = None,
        kernel_constraint: Any = None,
        bias_constraint: Any = None,
        use_bias: bool = True,
        norm_first: bool = False,
        norm_epsilon: float = 1e-12,
        intermediate_dropout: float = 0.0,
        attention_initializer: Any = None,
        **kwargs: Any,
    ) -> None:
        own = layer_arguments.LayerArguments(locals())
        super().__init__(
            num_attention_heads,
            intermediate_size,
            intermediate_activation,
            output_dropout=dropout_rate,
            attention_dropout=attention_dropout_rate,
            output_range=output_range,
            kernel_initializer=kernel_initializer,
            bias_initializer=bias_initializer,
            kernel_regularizer=kernel_regularizer,
            bias_regularizer=bias_regularizer,
            activity_regularizer=activity_regularizer,
            kernel_constraint=kernel_constraint,
            bias_constraint=bias_constraint,
            use_bias=use_bias,
            norm_first=norm_first,
            norm_epsilon=norm_epsilon,
            inner_dropout=intermediate_dropout,
            attention_initializer=attention_initializer,
            **kwargs,
        )
        self._own = own

    @override
    def get_config(self) -> dict[str, Any]:
        return {**keras.layers.Layer.get_config(self), **self._own.to_config()}


@keras.saving.register_keras_serializable(package="Text")
@gin_io.configurable
class CompiledTransformer(Transformer):
    """A `Transformer` that XLA compiles where it is called eagerly."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)

    @util.tf_function_if_eager(jit_compile=True)
    @override
    def call(self, inputs: Any) -> tf.Tensor:
        return super().call(inputs)


TransformerDecoderBlock = transformer_decoder_block.TransformerDecoderBlock
