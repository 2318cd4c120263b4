"""Products of two encodings, as losses of dual encoders need them.

Shapes:
    B  pairs in the batch
    D  width of an encoding
"""

from typing import Any

import keras
import tensorflow as tf
from typing_extensions import override

from quintain.modeling import tf_utils


@keras.saving.register_keras_serializable(package="Text")
class MatMulWithMargin(keras.layers.Layer):
    """Products of all pairs, less a margin for those that belong together."""

    def __init__(self, logit_scale: float = 1.0, logit_margin: float = 0.0, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.logit_scale = logit_scale
        self.logit_margin = logit_margin

    @override
    def call(
        self, left_encoded: tf.Tensor, right_encoded: tf.Tensor
    ) -> tuple[tf.Tensor, tf.Tensor]:
        """Returns products `[B, B]` of `[B, D]` and `[B, D]`, and the same transposed."""
        size = tf_utils.get_shape_list(left_encoded)[0]
        products = tf.matmul(left_encoded, right_encoded, transpose_b=True)
        margin = self.logit_margin * tf.eye(size, dtype=products.dtype)
        logits = self.logit_scale * (products - margin)
        return logits, tf.transpose(logits)

    @override
    def get_config(self) -> dict[str, Any]:
        return {
            **super().get_config(),
            "logit_scale": self.logit_scale,
            "logit_margin": self.logit_margin,
        }

    @classmethod
    @override
    def from_config(cls, config: dict[str, Any], custom_objects: Any = None) -> Any:
        """Returns the layer that a config describes; `custom_objects` is not used."""
        return super().from_config(config)
