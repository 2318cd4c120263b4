"""Small models for tests of trainers and exporters."""

from typing import Any

import keras
import tensorflow as tf
from typing_extensions import override


class FakeKerasModel(keras.Model):
    """Two dense layers of 4 units: `[B, any]` float32 to `[B, 4]` float32."""

    def __init__(self) -> None:
        super().__init__()
        self.dense = keras.layers.Dense(4, activation="relu")
        self.dense2 = keras.layers.Dense(4, activation="relu")

    @override
    def call(self, inputs: Any) -> Any:
        return self.dense2(self.dense(inputs))


class _Dense(tf.Module):
    """A dense layer of plain TensorFlow."""

    def __init__(self, input_size: int, output_size: int, name: str) -> None:
        super().__init__(name=name)
        with self.name_scope:
            self.w = tf.Variable(tf.random.normal([input_size, output_size]), name="w")
            self.b = tf.Variable(tf.zeros([output_size]), name="b")

    @tf.Module.with_name_scope
    def __call__(self, inputs: tf.Tensor) -> tf.Tensor:
        return tf.nn.relu(inputs @ self.w + self.b)


class FakeModule(tf.Module):
    """The same in plain TensorFlow: `[B, input_size]` float32 to `[B, 4]` float32."""

    def __init__(self, input_size: int, name: str | None = None) -> None:
        super().__init__(name=name)
        with self.name_scope:
            self.dense = _Dense(input_size, 4, name="dense")
            self.dense2 = _Dense(4, 4, name="dense_1")

    @tf.Module.with_name_scope
    def __call__(self, inputs: tf.Tensor) -> tf.Tensor:
        """Returns `[B, 4]` float32 for `[B, input_size]` float32."""
        return self.dense2(self.dense(inputs))
