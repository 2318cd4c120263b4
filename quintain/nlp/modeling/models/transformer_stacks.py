"""The Transformer's encoder and decoder: blocks on top of each other.

Shapes:
    B  examples in the batch
    S  source positions
    T  target positions
    D  width of the model
    N  tokens of all examples, where padding is left out
"""

import inspect
import math
from collections.abc import MutableMapping
from typing import Any

import keras
import tensorflow as tf
from typing_extensions import override

from quintain.nlp.modeling import constructed_model, layers
from quintain.nlp.modeling.layers import (
    decoder_block,
    encoder_block,
    packed_rows,
    residual_block,
)
from quintain.nlp.modeling.layers.layer_normalization import LayerNormalization


def attention_initializer(hidden_size: int) -> keras.initializers.Initializer:
    """Returns the initializer of attention's kernels: Glorot's, of whole matrices."""
    limit = math.sqrt(3.0 / int(hidden_size))
    return keras.initializers.RandomUniform(-limit, limit)


class TransformerStack(keras.layers.Layer):
    """Blocks on top of each other, and a normalisation at the end."""

    def __init__(self, given: dict[str, Any], **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.num_layers: int = given.pop("num_layers")
        self.num_attention_heads = given["num_attention_heads"]
        self.block_arguments = given
        self.blocks: list[Any] = []
        self.output_normalization = LayerNormalization(given["norm_epsilon"])

    @override
    def build(self, input_shape: Any) -> None:
        """Creates and builds the blocks.

        Raises:
            ConfigError: If the number of heads does not divide the width.
        """
        initializer = attention_initializer(input_shape[-1])
        self.blocks = [
            self._build_block(index, attention_initializer=initializer, name=f"block_{index}")
            for index in range(self.num_layers)
        ]
        for block in self.blocks:
            # TensorFlow's checkpoints find layers by attribute, not in lists made here.
            setattr(self, block.name, block)
            block.build(input_shape)
        self.output_normalization.build(input_shape)
        self.built = True

    def _build_block(self, index: int, *, attention_initializer: Any, name: str) -> Any:
        raise NotImplementedError

    def _build_options(self, initializer: Any) -> residual_block.BlockOptions:
        given = self.block_arguments
        return residual_block.BlockOptions(
            num_heads=given["num_attention_heads"],
            inner_width=given["intermediate_size"],
            activation=given["activation"],
            dropout_rates=residual_block.DropoutRates(
                given["dropout_rate"],
                given["attention_dropout_rate"],
                given["intermediate_dropout"],
            ),
            initializers=residual_block.Initializers(
                keras.initializers.GlorotUniform(), attention=initializer
            ),
            use_bias=given["use_bias"],
            norm_first=given["norm_first"],
            norm_epsilon=given["norm_epsilon"],
        )

    @override
    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "num_layers": self.num_layers, **self.block_arguments}


@keras.saving.register_keras_serializable("Text")
class TransformerEncoder(TransformerStack):
    """Turns a source into a memory that the decoder attends to.

    Example:
        >>> encoder = TransformerEncoder(num_layers=1, num_attention_heads=2, intermediate_size=8)
        >>> encoder(tf.ones([1, 3, 4]), tf.ones([1, 3, 3])).shape.as_list()
        [1, 3, 4]
    """

    def __init__(
        self,
        num_layers: int = 6,
        num_attention_heads: int = 8,
        intermediate_size: int = 2048,
        activation: Any = "relu",
        dropout_rate: float = 0.0,
        attention_dropout_rate: float = 0.0,
        use_bias: bool = False,
        norm_first: bool = True,
        norm_epsilon: float = 1e-6,
        intermediate_dropout: float = 0.0,
        **kwargs: Any,
    ) -> None:
        super().__init__(constructed_model.arguments(locals()), **kwargs)

    @property
    def encoder_layers(self) -> list[Any]:
        """The blocks."""
        return list(self.blocks)

    @override
    def _build_block(self, index: int, *, attention_initializer: Any, name: str) -> Any:
        return encoder_block.EncoderBlock(self._build_options(attention_initializer), name=name)

    @override
    def call(
        self,
        encoder_inputs: tf.Tensor,
        attention_mask: tf.Tensor | None = None,
        *,
        rows: packed_rows.PackedRows | None = None,
    ) -> tf.Tensor:
        """Encodes; the result is shaped as the inputs.

        Args:
            encoder_inputs: `[B, S, D]`; or `[N, D]`, the tokens alone.
            attention_mask: `[B, S, S]`, or `[B, 1, S]`: 1 where a position may be attended to.
            rows: Where the tokens are, if the inputs are tokens alone.
        """
        x = encoder_inputs
        where = {} if rows is None else {"rows": rows}
        for block in self.blocks:
            x = block([x, attention_mask], **where)
        return self.output_normalization(x)


@keras.saving.register_keras_serializable("Text")
class TransformerDecoder(TransformerStack):
    """Predicts a target from its beginning and the encoder's memory."""

    def __init__(
        self,
        num_layers: int = 6,
        num_attention_heads: int = 8,
        intermediate_size: int = 2048,
        activation: Any = "relu",
        dropout_rate: float = 0.0,
        attention_dropout_rate: float = 0.0,
        use_bias: bool = False,
        norm_first: bool = True,
        norm_epsilon: float = 1e-6,
        intermediate_dropout: float = 0.0,
        self_attention_cls: Any = None,
        cross_attention_cls: Any = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(constructed_model.arguments(locals()), **kwargs)
        # Keras copies what it converts, so that a caller would not see changes of its cache.
        self._convert_input_args = False

    @property
    def decoder_layers(self) -> list[Any]:
        """The blocks."""
        return list(self.blocks)

    @property
    def is_fused(self) -> bool:
        """True if all blocks are computed with fused projections."""
        return all(block.takes_rows for block in self.blocks)

    @override
    def _build_block(self, index: int, *, attention_initializer: Any, name: str) -> Any:
        given = dict(self.block_arguments)
        classes = {
            field: _choose_class(given.pop(field), index)
            for field in ("self_attention_cls", "cross_attention_cls")
        }
        if not any(classes.values()):
            return decoder_block.DecoderBlock(self._build_options(attention_initializer), name=name)
        return layers.TransformerDecoderBlock(
            intermediate_activation=given.pop("activation"),
            attention_initializer=attention_initializer,
            name=name,
            **given,
            **classes,
        )

    @override
    def call(
        self,
        target: tf.Tensor,
        memory: tf.Tensor,
        self_attention_mask: tf.Tensor | None = None,
        cross_attention_mask: tf.Tensor | None = None,
        cache: MutableMapping[str, Any] | None = None,
        decode_loop_step: Any = None,
        return_all_decoder_outputs: bool = False,
        *,
        rows: packed_rows.PackedRows | None = None,
        memory_rows: packed_rows.PackedRows | None = None,
    ) -> Any:
        """Decodes all positions at once, or the next ones with a cache, shaped as the target.

        Args:
            target: `[B, T, D]`; or `[N, D]`, the tokens alone.
            memory: `[B, S, D]`, the encoder's output; or its tokens alone.
            self_attention_mask: `[B, T, T]`, whose first dimension may be 1: 1 where a position of
                the target may be attended to.
            cross_attention_mask: `[B, T, S]`, or `[B, 1, S]`: likewise of the memory.
            cache: Keys and values of positions before these, by the number of the block as a
                string; changed. None for no cache.
            decode_loop_step: Place of the new position in a cache of fixed length.
            return_all_decoder_outputs: Whether to return a list of all blocks' normalised outputs.
            rows: Where the tokens are, if the target is tokens alone.
            memory_rows: Likewise of the memory.
        """
        x, outputs = target, []
        where = {"rows": rows, "memory_rows": memory_rows} if rows is not None else {}
        for index, block in enumerate(self.blocks):
            inputs = [x, memory, cross_attention_mask, self_attention_mask]
            if cache is None:
                x, _ = block(inputs, **where)
            else:
                number = str(index)
                x, cache[number] = block(
                    inputs, cache=cache[number], decode_loop_step=decode_loop_step
                )
            if return_all_decoder_outputs:
                outputs.append(self.output_normalization(x))
        return outputs if return_all_decoder_outputs else self.output_normalization(x)

    def start(self, memory: tf.Tensor) -> list[tuple[tf.Tensor, tf.Tensor]]:
        """Returns each block's keys and values of the memory, computed once for all steps."""
        return [block.cross_attention.read_memory(memory) for block in self.blocks]


def _choose_class(given: Any, index: int) -> Any:
    """Returns the class of a block's attention: what was given, or what it returns."""
    return given(index) if inspect.isfunction(given) else given
