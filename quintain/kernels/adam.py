"""Adam, its weight decay and the moving average of the weights, in one pass over all variables."""

import dataclasses
from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from quintain.kernels import casts, library


@dataclasses.dataclass(frozen=True, kw_only=True)
class Scalars:
    """Scalars that all variables share in one update; each a `[]` float32."""

    rate: tf.Tensor
    """`lr * sqrt(1 - beta_2 ** t) / (1 - beta_1 ** t)`, with `t` the number of the update."""

    beta_1: tf.Tensor
    """Decay of the mean of gradients."""

    beta_2: tf.Tensor
    """Decay of the mean of squared gradients."""

    epsilon: tf.Tensor
    """Added to the root of the mean square."""

    scale: Any = 1.0
    """Factor of the gradients."""

    decay: Any = 0.0
    """Part that is subtracted from the weights that decay."""

    kept: Any = 0.0
    """Part of the averages that is kept."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Variable:
    """A float32 variable and what is updated with it: resources on one CPU."""

    weight: tf.Tensor
    mean: tf.Tensor
    square: tf.Tensor

    gradient: tf.Tensor
    """Float32, of the variable's shape. If it was cast from bfloat16, that is read instead."""

    average: tf.Tensor | None = None
    """The moving average of the weight, if there is one."""

    is_decaying: bool = False
    """Whether the weight decays."""


def update(variables: Sequence[Variable], scalars: Scalars) -> None:
    """Updates variables as TensorFlow's operations do, to the bit.

        w -= decay * w                             where it decays
        m += (scale * g - m) * (1 - beta_1)
        v += ((scale * g) ** 2 - v) * (1 - beta_2)
        w -= m * rate / (sqrt(v) + epsilon)
        average = kept * average + (1 - kept) * w  where there is one

    Args:
        variables: The variables; at least one.
        scalars: What they share.
    """
    averaged = [place for place, one in enumerate(variables) if one.average is not None]
    packed = [
        scalars.rate,
        1.0 - scalars.beta_1,
        1.0 - scalars.beta_2,
        scalars.epsilon,
        scalars.scale,
        scalars.decay,
        scalars.kept,
    ]
    library.get().quintain_adam(
        weights=[one.weight for one in variables],
        means=[one.mean for one in variables],
        squares=[one.square for one in variables],
        averages=[variables[place].average for place in averaged],
        gradients=[find_uncast(one.gradient) for one in variables],
        scalars=tf.stack([tf.cast(scalar, tf.float32) for scalar in packed]),
        decaying=[one.is_decaying for one in variables],
        averaged=averaged,
    )


def sum_half_squares(tensors: Sequence[tf.Tensor]) -> tf.Tensor:
    """Returns half the sum of the squares of all numbers, `[]` float32.

    It is that of `tf.nn.l2_loss`, but sums in another order: within 1e-6 of the exact sum.

    Args:
        tensors: Float32 or bfloat16; at least one.
    """
    return library.get().quintain_half_squares(tensors=[find_uncast(one) for one in tensors])


def find_uncast(tensor: tf.Tensor) -> tf.Tensor:
    """Returns the bfloat16 numbers that a float32 tensor of a graph was cast from, if it was.

    They are the same numbers. The gradients of weights that a layer cast to bfloat16 are such; if
    nobody else reads them as float32, they need not be written so.
    """
    return casts.find_source(tensor, cast_from=tf.bfloat16, cast_to=tf.float32)
