"""The Transformer's encoder and decoder: blocks on top of each other.

Shapes:
    B  examples in the batch
    S  source positions
    T  target positions
    D  width of the model
    N  tokens of all examples, where padding is left out
"""

import math
from typing import Any

import keras
import tensorflow as tf

from quintain.nlp.modeling.layers import packed_rows, transformer, transformer_encoder_block
from quintain.nlp.modeling.layers.layer_normalization import LayerNormalization


class _Stack(keras.layers.Layer):
    """Blocks on top of each other, and under pre-norm a normalisation at the end."""

    def __init__(
        self,
        num_layers: int = 6,
        num_attention_heads: int = 8,
        intermediate_size: int = 2048,
        activation: str = "relu",
        dropout_rate: float = 0.0,
        attention_dropout_rate: float = 0.0,
        use_bias: bool = False,
        norm_first: bool = True,
        norm_epsilon: float = 1e-6,
        intermediate_dropout: float = 0.0,
        **kwargs: Any,
    ) -> None:
        """Stores the shape; blocks are created when the width is known, by `build`.

        Args:
            num_layers: Blocks.
            num_attention_heads: Attention heads of each block; must divide the width.
            intermediate_size: Width inside the feed-forward parts.
            activation: Keras' name of the feed-forward parts' activation.
            dropout_rate: Share of each sub-layer's output that training drops.
            attention_dropout_rate: Share of the attention weights that training drops.
            use_bias: Whether the projections of attention have biases.
            norm_first: Pre-norm, which trains stably, or post-norm, as first published.
            norm_epsilon: Added to the variance in normalisation.
            intermediate_dropout: Share of values inside feed-forward parts that training drops.
            **kwargs: Arguments of a Keras layer.
        """
        super().__init__(**kwargs)
        self.num_layers = num_layers
        self.block_arguments: dict[str, Any] = {
            "num_attention_heads": num_attention_heads,
            "intermediate_size": intermediate_size,
            "activation": activation,
            "dropout_rate": dropout_rate,
            "attention_dropout_rate": attention_dropout_rate,
            "intermediate_dropout": intermediate_dropout,
            "use_bias": use_bias,
            "norm_first": norm_first,
            "norm_epsilon": norm_epsilon,
        }
        self.blocks: list[Any] = []
        self.output_norm = LayerNormalization(norm_epsilon) if norm_first else None

    def build(self, input_shape: Any) -> None:
        """Creates and builds the blocks.

        Raises:
            ConfigError: If the number of heads does not divide the width.
        """
        limit = math.sqrt(3.0 / input_shape[-1])  # Glorot's, of whole matrices.
        self.blocks = [
            self.build_block(keras.initializers.RandomUniform(-limit, limit), f"block_{index}")
            for index in range(self.num_layers)
        ]
        for block in self.blocks:
            # TensorFlow's checkpoints find layers by attribute, not in lists made here.
            setattr(self, block.name, block)
            block.build(input_shape)
        if self.output_norm is not None:
            self.output_norm.build(input_shape)

    def build_block(self, attention_initializer: Any, name: str) -> Any:
        """Returns a block."""
        raise NotImplementedError

    def finish(self, x: tf.Tensor) -> tf.Tensor:
        """Returns the output of the stack from that of its last block."""
        return x if self.output_norm is None else self.output_norm(x)


class TransformerEncoder(_Stack):
    """Turns a source into a memory that the decoder attends to."""

    def build_block(self, attention_initializer: Any, name: str) -> Any:
        """Returns a block."""
        given = self.block_arguments
        return transformer_encoder_block.TransformerEncoderBlock(
            given["num_attention_heads"],
            given["intermediate_size"],
            given["activation"],
            output_dropout=given["dropout_rate"],
            attention_dropout=given["attention_dropout_rate"],
            inner_dropout=given["intermediate_dropout"],
            use_bias=given["use_bias"],
            norm_first=given["norm_first"],
            norm_epsilon=given["norm_epsilon"],
            attention_initializer=attention_initializer,
            name=name,
        )

    def call(
        self,
        inputs: tf.Tensor,
        mask: tf.Tensor,
        training: bool = False,
        rows: packed_rows.PackedRows | None = None,
    ) -> tf.Tensor:
        """Encodes `[B, S, D]`, or the `rows` `[N, D]`; `mask` `[B, 1, S]` is 0 at padding."""
        x = inputs
        for block in self.blocks:
            x = block([x, mask], training=training, rows=rows)
        return self.finish(x)


class TransformerDecoder(_Stack):
    """Predicts a target from its beginning and the encoder's memory."""

    def build_block(self, attention_initializer: Any, name: str) -> Any:
        """Returns a block."""
        given = self.block_arguments
        return transformer.TransformerDecoderBlock(
            given["num_attention_heads"],
            given["intermediate_size"],
            given["activation"],
            dropout_rate=given["dropout_rate"],
            attention_dropout_rate=given["attention_dropout_rate"],
            intermediate_dropout=given["intermediate_dropout"],
            use_bias=given["use_bias"],
            norm_first=given["norm_first"],
            norm_epsilon=given["norm_epsilon"],
            attention_initializer=attention_initializer,
            name=name,
        )

    def call(
        self,
        inputs: tf.Tensor,
        memory: tf.Tensor,
        mask: tf.Tensor,
        memory_mask: tf.Tensor,
        training: bool = False,
        rows: packed_rows.PackedRows | None = None,
        memory_rows: packed_rows.PackedRows | None = None,
    ) -> tf.Tensor:
        """Decodes all positions at once; masks as for `TransformerDecoderBlock.call`."""
        x = inputs
        for block in self.blocks:
            x, _ = block(
                [x, memory, memory_mask, mask],
                training=training,
                rows=rows,
                memory_rows=memory_rows,
            )
        return self.finish(x)

    def start(self, memory: tf.Tensor) -> list[tuple[tf.Tensor, tf.Tensor]]:
        """Returns each block's keys and values of the memory, computed once for all steps."""
        return [block.cross_attention.read_memory(memory) for block in self.blocks]
