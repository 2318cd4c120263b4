"""Packed sequences, and encoder blocks with a stride.

Shapes:
    B  examples in the batch
    P  examples in a row
    S  positions of an example
    D  width of the model
"""

from typing import Any

import keras
import tensorflow as tf
from typing_extensions import override

from quintain import errors
from quintain.garden.nlp.layers import (
    rezero_transformer,
    transformer_encoder_block,
    transformer_scaffold,
)
from quintain.modeling import tf_utils


@keras.saving.register_keras_serializable(package="Text")
class PackBertEmbeddings(keras.layers.Layer):
    """Puts sequences side by side into rows, with a mask that keeps them apart."""

    def __init__(self, pack_sequences: int, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.pack_sequences = pack_sequences

    @override
    def call(self, input_embeddings: tf.Tensor, input_mask: tf.Tensor) -> dict[str, tf.Tensor]:
        """Packs.

        Args:
            input_embeddings: `[B, S, D]`.
            input_mask: `[B, S]`: 1 for tokens, 0 for padding.

        Returns:
            `packed_embeddings` `[B / P, P * S, D]` and `combined_attention_mask`
            `[B / P, P * S, P * S]` float32.
        """
        batch, length, width = tf_utils.get_shape_list(input_embeddings, expected_rank=3)
        count = self.pack_sequences
        rows = [batch // count, count * length]
        mask = tf.reshape(input_mask, rows)
        numbers = tf.repeat(tf.range(1, count + 1), length)[tf.newaxis]  # [1, P * S]
        numbers = tf.where(tf.equal(mask, 0), 0, numbers)  # [B / P, P * S]
        is_same = tf.equal(numbers[:, :, tf.newaxis], numbers[:, tf.newaxis])
        allowed = tf.logical_and(is_same, tf.cast(mask, tf.bool)[:, tf.newaxis])
        return {
            "packed_embeddings": tf.reshape(input_embeddings, [*rows, width]),
            "combined_attention_mask": tf.cast(allowed, tf.float32),
        }

    @override
    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "pack_sequences": self.pack_sequences}


def _check_range(output_range: int | None) -> None:
    if output_range is not None:
        raise errors.ConfigError(
            f"output_range: got {output_range}; a strided block does not support it."
        )


@keras.saving.register_keras_serializable(package="Text")
class StridedTransformerEncoderBlock(transformer_encoder_block.TransformerEncoderBlock):
    """`TransformerEncoderBlock` that encodes each `stride`-th position."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        _check_range(self.given.output_range)

    @override
    def call(  # type: ignore[override]  # A stride instead of a range.
        self, inputs: Any, stride: Any, training: bool | None = None
    ) -> Any:
        """Encodes each `stride`-th position of what the base class takes."""
        return self.encode(inputs, slice(None, None, stride), training)


@keras.saving.register_keras_serializable(package="Text")
class StridedReZeroTransformer(rezero_transformer.ReZeroTransformer):
    """`ReZeroTransformer` that encodes each `stride`-th position."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        _check_range(self._given.output_range)

    @override
    def call(  # type: ignore[override]  # A stride instead of a range.
        self, inputs: Any, stride: Any, training: bool | None = None
    ) -> tf.Tensor:
        """Encodes each `stride`-th position of what the base class takes."""
        return self.encode(inputs, slice(None, None, stride), training)


@keras.saving.register_keras_serializable(package="Text")
class StridedTransformerScaffold(transformer_scaffold.TransformerScaffold):
    """`TransformerScaffold` that encodes each `stride`-th position."""

    @override
    def call(  # type: ignore[override]  # A stride instead of a range.
        self, inputs: Any, stride: Any, training: bool | None = None
    ) -> tf.Tensor:
        """Encodes each `stride`-th position of what the base class takes."""
        return self.encode(inputs, slice(None, None, stride), training)
