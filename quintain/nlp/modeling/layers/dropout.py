"""Dropout that draws a quarter of the random bits of Keras' own."""

from collections.abc import Callable
from typing import Any, Final

import keras
import tensorflow as tf

from quintain import errors
from quintain.kernels import dropout as kernel
from quintain.kernels import selection

_LARGEST_DEVIATION: Final = 0.02
"""How far, as a share of the rate, the share really dropped may be from it."""


class Dropout(keras.layers.Layer):
    """Sets a share of its input to zero in training, and scales the rest up to keep the mean.

    Random bits are most of the cost of dropout on CPUs, so each number gets as few as its rate
    allows: 8, if a multiple of 1/256 is within 2 % of the rate, else 16. Numbers are scaled by the
    share really dropped, so the mean is kept exactly.

    Example:
        >>> int(Dropout(0.5)(tf.ones([3])).numpy().sum())  # Not training.
        3

    Source:
        Srivastava et al., 2014 (https://jmlr.org/papers/v15/srivastava14a.html).
    """

    def __init__(self, rate: float, **kwargs: Any) -> None:
        """Seeds a generator, unless the share to drop is 0.

        Raises:
            ConfigError: If `rate` is outside `[0, 1)`.
        """
        super().__init__(**kwargs)
        if not 0.0 <= rate < 1.0:
            raise errors.ConfigError(f"rate: got {rate!r}, expected a number in [0, 1).")
        self.rate = rate
        is_coarse = abs(round(rate * 256) / 256 - rate) <= _LARGEST_DEVIATION * rate
        self.bits_type = tf.int8 if is_coarse and rate < 1 - 1 / 256 else tf.int16
        # At least one level stays, so that the scale is finite for every rate below 1.
        self.num_dropped = min(round(rate * self._num_levels), self._num_levels - 1)
        self.seed_generator = keras.random.SeedGenerator() if rate else None
        self.built = True

    @property
    def _num_levels(self) -> int:
        """Number of values of one number's random bits."""
        return 1 << (8 * self.bits_type.size)

    def call(self, inputs: tf.Tensor, training: bool = False) -> tf.Tensor:
        """Returns `inputs`, with zeros when `training`."""
        return self._drop(inputs, self.draw(training))

    def add(self, residual: tf.Tensor, inputs: tf.Tensor, training: bool | None) -> tf.Tensor:
        """Returns `residual + dropout(inputs)`, of the residual's type."""
        draw = self.draw(training)
        if draw is not None and can_be_native(inputs, residual):
            return kernel.drop(inputs, draw, residual)
        return residual + tf.cast(self._drop(inputs, draw), residual.dtype)

    def _drop(self, inputs: tf.Tensor, draw: kernel.Draw | None) -> tf.Tensor:
        if draw is None:
            return inputs
        if can_be_native(inputs):
            return kernel.drop(inputs, draw)
        return self.drop_plainly(inputs, draw.seed)

    def draw(self, training: bool | None) -> kernel.Draw | None:
        """Returns what the next dropout draws, which moves the generator on; None for nothing."""
        if not training or self.seed_generator is None:
            return None
        return self.make_draw(self.seed_generator.next())

    def make_draw(self, seed: tf.Tensor) -> kernel.Draw:
        """Returns what a dropout draws from a seed."""
        return kernel.Draw(
            level_bytes=self.bits_type.size,
            first_kept=self.num_dropped - self._num_levels // 2,
            scale=self._num_levels / (self._num_levels - self.num_dropped),
            seed=seed,
        )

    def drop_plainly(self, inputs: tf.Tensor, seed: tf.Tensor) -> tf.Tensor:
        """Drops numbers out by TensorFlow's operations."""
        draw = self.make_draw(seed)
        per_draw = 4 // self.bits_type.size
        size = tf.size(inputs)
        draws = tf.random.stateless_uniform(
            [(size + per_draw - 1) // per_draw], seed, minval=None, maxval=None, dtype=tf.int32
        )
        levels = tf.reshape(tf.bitcast(draws, self.bits_type), [-1])[:size]  # one for each number
        first_kept = tf.constant(draw.first_kept, self.bits_type)
        is_kept = tf.cast(tf.reshape(levels >= first_kept, tf.shape(inputs)), inputs.dtype)
        return _scale(inputs, is_kept * tf.cast(draw.scale, inputs.dtype))


def can_be_native(*tensors: tf.Tensor | None) -> bool:
    """Returns whether native kernels are wanted, and take tensors of these types."""
    return selection.is_native() and all(
        tensor is None or tensor.dtype in (tf.float32, tf.bfloat16) for tensor in tensors
    )


@tf.custom_gradient
def _scale(
    inputs: tf.Tensor, factors: tf.Tensor
) -> tuple[tf.Tensor, Callable[[tf.Tensor], tuple[tf.Tensor, None]]]:
    """Multiplies each number by its factor, for which no gradient is computed."""
    return inputs * factors, lambda upstream: (upstream * factors, None)
