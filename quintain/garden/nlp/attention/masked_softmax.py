"""Softmax with a mask."""

from collections.abc import Sequence
from typing import Any

import keras
import tensorflow as tf
from typing_extensions import override


@keras.saving.register_keras_serializable(package="Text")
class MaskedSoftmax(keras.layers.Layer):
    """Softmax over one dimension or several, without what a mask leaves out.

    Example:
        >>> MaskedSoftmax()(tf.zeros([1, 4]), tf.constant([[1, 1, 0, 0]])).numpy().tolist()
        [[0.5, 0.5, 0.0, 0.0]]
    """

    def __init__(
        self,
        mask_expansion_axes: int | Sequence[int] | None = None,
        normalization_axes: Sequence[int] | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        normalization_axes = (-1,) if normalization_axes is None else normalization_axes
        self._mask_expansion_axes = mask_expansion_axes
        self._normalization_axes = tuple(normalization_axes)
        self.supports_masking = True  # Else Keras warns of the mask that it takes.

    @override
    def compute_mask(self, inputs: Any, previous_mask: Any) -> None:
        """Returns None: the mask is used up."""

    @override
    def call(self, scores: tf.Tensor, mask: tf.Tensor | None = None) -> tf.Tensor:
        """Returns the softmax of `scores`; `mask` is 1 where they count, and 0 where not."""
        if mask is not None:
            for _ in range(len(scores.shape) - len(mask.shape)):
                mask = tf.expand_dims(mask, axis=self._mask_expansion_axes)
            lowest = tf.float16.min if scores.dtype == tf.float16 else -1e9
            scores += (1.0 - tf.cast(mask, scores.dtype)) * lowest
        if len(self._normalization_axes) == 1:
            return tf.nn.softmax(scores, axis=self._normalization_axes[0])
        total = tf.reduce_logsumexp(scores, axis=self._normalization_axes, keepdims=True)
        return tf.exp(scores - total)

    @override
    def get_config(self) -> dict[str, Any]:
        return {
            **super().get_config(),
            "mask_expansion_axes": self._mask_expansion_axes,
            "normalization_axes": self._normalization_axes,
        }
