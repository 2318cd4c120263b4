"""Weights as 8-bit integers with a scale for each channel.

Shapes:
    I  inputs of a matrix
    O  outputs of a matrix
"""

from typing import Any, Final, NamedTuple

import keras
import tensorflow as tf

_LARGEST: Final = 127


class Quantized(NamedTuple):
    """Integers, and what they are multiplied by."""

    values: Any
    """int8, from -127 to 127."""

    scales: Any
    """float32; of size 1 along all but the channels' axis."""

    def restore(self) -> tf.Tensor:
        """Returns the float32 numbers that they stand for."""
        return tf.cast(self.values, tf.float32) * self.scales


def quantize(weights: Any, channel_axis: int) -> Quantized:
    """Rounds a matrix to integers; each channel's largest number stays what it is.

    Weights are `[I, O]` with `channel_axis=1`, or `[O, I]` with 0.

    Example:
        >>> found = quantize(tf.constant([[1.0, -0.2], [0.5, 0.1]]), channel_axis=1)
        >>> found.values.numpy().tolist()
        [[127, -127], [64, 64]]
    """
    weights = tf.cast(tf.convert_to_tensor(weights), tf.float32)
    most = tf.reduce_max(tf.abs(weights), axis=1 - channel_axis, keepdims=True)
    scales = tf.where(most > 0, most / _LARGEST, 1.0)
    return Quantized(tf.cast(tf.round(weights / scales), tf.int8), scales)


class Int8Model(tf.Module):
    """The weights of a `Seq2SeqTransformer`, its matrices and embeddings as integers."""

    def __init__(self, model: Any) -> None:
        """Rounds the weights as they are now; within a graph, as they are whenever it runs."""
        super().__init__()
        embeddings = {id(model.embedding), id(model.output_embedding)}
        variables: list[Any] = []
        matrices: list[Quantized] = []
        others: list[Any] = []
        for variable in model.variables:
            is_embedding = id(variable) in embeddings
            if not is_embedding and variable.path.rpartition("/")[2] != "kernel":
                others.append(variable.value)
                continue
            found = quantize(variable, 0 if is_embedding else 1)
            if tf.executing_eagerly():
                found = Quantized(*(tf.Variable(part, trainable=False) for part in found))
            variables.append(variable)
            matrices.append(found)
        # An export holds what it finds in attributes: these, and not the matrices' own variables.
        self._matrices, self._others = matrices, others
        object.__setattr__(self, "_variables", tuple(variables))

    def scope(self) -> keras.StatelessScope:
        """Returns a context in which the model computes with the rounded weights."""
        restored = [found.restore() for found in self._matrices]
        return keras.StatelessScope(list(zip(self._variables, restored, strict=True)))
