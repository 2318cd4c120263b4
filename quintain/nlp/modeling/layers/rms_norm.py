"""Normalisation by the root mean square."""

from collections.abc import Sequence
from typing import Any

import keras
import tensorflow as tf
from typing_extensions import override


@keras.saving.register_keras_serializable(package="Text")
class RMSNorm(keras.layers.Layer):
    """Divides by the root of the mean square, in float32, and scales.

    Source:
        Zhang and Sennrich, 2019 (https://arxiv.org/abs/1910.07467).
    """

    def __init__(
        self, axis: int | Sequence[int] = -1, epsilon: float = 1e-6, **kwargs: Any
    ) -> None:
        super().__init__(**kwargs)
        self.axis = [axis] if isinstance(axis, int) else list(axis)
        self.epsilon = epsilon

    @override
    def build(self, input_shape: Any) -> None:
        shape = [1] * len(input_shape)
        for axis in self.axis:
            shape[axis] = input_shape[axis]
        self.scale = self.add_weight(
            shape=tuple(shape), initializer="ones", name="scale", autocast=False
        )

    @override
    def call(self, inputs: tf.Tensor) -> tf.Tensor:
        x = tf.cast(inputs, tf.float32)
        mean = tf.reduce_mean(tf.square(x), axis=self.axis, keepdims=True)
        scaled = x * tf.math.rsqrt(mean + self.epsilon) * tf.convert_to_tensor(self.scale)
        return tf.cast(scaled, inputs.dtype)

    @override
    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "axis": self.axis, "epsilon": self.epsilon}
