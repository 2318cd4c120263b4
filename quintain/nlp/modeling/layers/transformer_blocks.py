"""One block of the Transformer's encoder and of its decoder.

Shapes:
    B  examples in the batch
    S  source positions
    T  target positions
    D  width of the model
    N  tokens of all examples, where padding is left out
"""

from typing import Any

import keras
import tensorflow as tf

from quintain.nlp.modeling.layers import attention, dropout, packed_rows
from quintain.nlp.modeling.layers.layer_normalization import LayerNormalization


class FeedForward(keras.layers.Layer):
    """Two dense layers with an activation between them, applied to each position."""

    def __init__(
        self,
        width: int,
        intermediate_size: int,
        *,
        activation: str,
        dropout_rate: float,
        **kwargs: Any,
    ) -> None:
        """Creates the layers.

        Args:
            width: Width of inputs and outputs.
            intermediate_size: Width between the two layers.
            activation: Keras' name of the activation.
            dropout_rate: Share of the intermediate values that training drops.
            **kwargs: Arguments of a Keras layer.
        """
        super().__init__(**kwargs)
        self.activation = keras.activations.get(activation)
        self.expand = attention.Projection(intermediate_size, use_bias=True, name="expand")
        self.contract = attention.Projection(width, use_bias=True, name="contract")
        self.dropout = dropout.Dropout(dropout_rate)
        self.intermediate_size = intermediate_size

    def build(self, input_shape: Any) -> None:
        """Builds both layers."""
        self.expand.build(input_shape)
        self.contract.build((*input_shape[:-1], self.intermediate_size))

    def call(self, inputs: tf.Tensor, training: bool = False) -> tf.Tensor:
        """Maps `[B, S, D]` to `[B, S, D]`, and `[N, D]` to `[N, D]`."""
        intermediate = self.activation(self.expand(inputs))
        return self.contract(self.dropout(intermediate, training=training))


class _Block(keras.layers.Layer):
    """Residual sub-layers with normalisation before (pre-norm) or after each (post-norm)."""

    def __init__(
        self,
        width: int,
        num_attention_heads: int,
        intermediate_size: int,
        *,
        activation: str = "relu",
        dropout_rate: float = 0.0,
        attention_dropout_rate: float = 0.0,
        intermediate_dropout: float = 0.0,
        use_bias: bool = False,
        norm_first: bool = True,
        norm_epsilon: float = 1e-6,
        **kwargs: Any,
    ) -> None:
        """Creates the sub-layers.

        Args:
            width: Width of inputs and outputs.
            num_attention_heads: Attention heads; must divide `width`.
            intermediate_size: Width inside the feed-forward part.
            activation: Keras' name of the feed-forward part's activation.
            dropout_rate: Share of each sub-layer's output that training drops.
            attention_dropout_rate: Share of the attention weights that training drops.
            intermediate_dropout: Share of values inside the feed-forward part that training drops.
            use_bias: Whether the projections of attention have biases.
            norm_first: Pre-norm, which trains stably, or post-norm, as first published.
            norm_epsilon: Added to the variance in normalisation.
            **kwargs: Arguments of a Keras layer.

        Raises:
            ConfigError: If `num_attention_heads` does not divide `width`.
        """
        super().__init__(**kwargs)
        self.norm_first = norm_first
        self.norm_epsilon = norm_epsilon
        self.attention_arguments: dict[str, Any] = {
            "num_heads": num_attention_heads,
            "width": width,
            "dropout_rate": attention_dropout_rate,
            "use_bias": use_bias,
        }
        self.self_attention = attention.SelfAttention(**self.attention_arguments)
        self.feed_forward = FeedForward(
            width, intermediate_size, activation=activation, dropout_rate=intermediate_dropout
        )
        self.self_attention_norm = LayerNormalization(norm_epsilon)
        self.feed_forward_norm = LayerNormalization(norm_epsilon)
        self.dropout = dropout.Dropout(dropout_rate)

    def build(self, input_shape: Any) -> None:
        """Builds the sub-layers."""
        for layer in (
            self.self_attention,
            self.feed_forward,
            self.self_attention_norm,
            self.feed_forward_norm,
        ):
            layer.build(input_shape)

    def enter(self, x: tf.Tensor, norm: LayerNormalization) -> tf.Tensor:
        """Returns the input of a sub-layer."""
        return norm(x) if self.norm_first else x

    def leave(
        self, x: tf.Tensor, output: tf.Tensor, norm: LayerNormalization, training: bool
    ) -> tf.Tensor:
        """Adds a sub-layer's output to its input."""
        total = x + self.dropout(output, training=training)
        return total if self.norm_first else norm(total)

    def add_feed_forward(self, x: tf.Tensor, training: bool) -> tf.Tensor:
        """Runs the feed-forward part, the last of each block."""
        norm = self.feed_forward_norm
        output = self.feed_forward(self.enter(x, norm), training=training)
        return self.leave(x, output, norm, training)


class TransformerEncoderBlock(_Block):
    """Self-attention and a feed-forward part.

    Source:
        Vaswani et al., 2017, section 3.1 (https://arxiv.org/abs/1706.03762).
    """

    def call(
        self,
        inputs: tf.Tensor,
        bias: tf.Tensor,
        training: bool = False,
        rows: packed_rows.PackedRows | None = None,
    ) -> tf.Tensor:
        """Encodes `[B, S, D]`, or the `rows` `[N, D]`; `bias` `[B, 1, 1, S]` masks padding."""
        norm = self.self_attention_norm
        output = self.self_attention(self.enter(inputs, norm), bias, training=training, rows=rows)
        x = self.leave(inputs, output, norm, training)
        return self.add_feed_forward(x, training)


class TransformerDecoderBlock(_Block):
    """Self-attention, attention to the encoder's output, and a feed-forward part.

    Source:
        Vaswani et al., 2017, section 3.1 (https://arxiv.org/abs/1706.03762).
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        """Creates the sub-layers; arguments as for the encoder block."""
        super().__init__(*args, **kwargs)
        self.cross_attention = attention.CrossAttention(**self.attention_arguments)
        self.cross_attention_norm = LayerNormalization(self.norm_epsilon)

    def build(self, input_shape: Any) -> None:
        """Builds the sub-layers."""
        super().build(input_shape)
        self.cross_attention.build(input_shape)
        self.cross_attention_norm.build(input_shape)

    def call(
        self,
        inputs: tf.Tensor,
        memory: tf.Tensor,
        bias: tf.Tensor,
        memory_bias: tf.Tensor,
        training: bool = False,
        rows: packed_rows.PackedRows | None = None,
        memory_rows: packed_rows.PackedRows | None = None,
    ) -> tf.Tensor:
        """Decodes all positions at once.

        Args:
            inputs: `[B, T, D]`; or `[N, D]`, the tokens alone.
            memory: `[B, S, D]`, the encoder's output; or its tokens alone.
            bias: `[T, T]`, masking later positions.
            memory_bias: `[B, 1, 1, S]`, masking the source's padding.
            training: Whether to apply dropout.
            rows: Where the tokens are, if `inputs` are tokens alone.
            memory_rows: Likewise of `memory`.
        """
        norm = self.self_attention_norm
        output = self.self_attention(self.enter(inputs, norm), bias, training=training, rows=rows)
        x = self.leave(inputs, output, norm, training)
        norm = self.cross_attention_norm
        output = self.cross_attention(
            self.enter(x, norm),
            self.cross_attention.read_memory(memory, memory_rows),
            memory_bias,
            training=training,
            rows=rows,
        )
        x = self.leave(x, output, norm, training)
        return self.add_feed_forward(x, training)
