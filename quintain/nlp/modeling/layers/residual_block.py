"""What the encoder's and the decoder's block share: sub-layers between which inputs are added.

Shapes:
    B  examples in the batch
    S  positions
    D  width of the model
"""

from typing import Any

import keras
import tensorflow as tf

from quintain.nlp.modeling.layers import layer_arguments
from quintain.nlp.modeling.layers.layer_normalization import LayerNormalization


class ResidualBlock(keras.layers.Layer):
    """Residual sub-layers with normalisation before (pre-norm) or after each (post-norm).

    Sub-layers are made by `build`: `self_attention`, `feed_forward`, their `_norm` and `dropout`.
    """

    given: layer_arguments.LayerArguments
    self_attention: Any
    self_attention_norm: Any
    feed_forward: Any
    feed_forward_norm: Any
    dropout: Any

    @property
    def norm_first(self) -> bool:
        """Whether inputs of the sub-layers are normalised, instead of outputs."""
        return bool(self.given.norm_first)

    def build_norm(self, name: str, shape: Any) -> LayerNormalization:
        """Returns a normalisation in float32 whatever the precision policy."""
        norm = LayerNormalization(self.given.norm_epsilon, dtype="float32", name=name)
        norm.build(shape)
        return norm

    def enter(self, x: tf.Tensor, norm: Any) -> tf.Tensor:
        """Returns the input of a sub-layer."""
        return norm(x) if self.norm_first else x

    def leave(
        self,
        x: tf.Tensor | None,
        output: tf.Tensor,
        norm: Any,
        training: bool | None,
    ) -> tf.Tensor:
        """Adds a sub-layer's output to its input; to nothing if that is None."""
        output = self.dropout(output, training=training)
        total = output if x is None else x + tf.cast(output, x.dtype)
        return total if self.norm_first else norm(total)

    def add_feed_forward(self, x: tf.Tensor, training: bool | None) -> tf.Tensor:
        """Runs the feed-forward part, the last of each block."""
        norm = self.feed_forward_norm
        output = self.feed_forward(self.enter(x, norm), training=training)
        return self.leave(x, output, norm, training)

    @property
    def _attention_layer(self) -> keras.layers.Layer:
        return self.self_attention

    @property
    def _attention_layer_norm(self) -> keras.layers.Layer:
        return self.self_attention_norm

    @property
    def _intermediate_dense(self) -> keras.layers.Layer:
        return self.feed_forward.expand

    @property
    def _output_dense(self) -> keras.layers.Layer:
        return self.feed_forward.contract

    @property
    def _output_layer_norm(self) -> keras.layers.Layer:
        return self.feed_forward_norm
