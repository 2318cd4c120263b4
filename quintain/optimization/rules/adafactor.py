"""Adafactor: Adam's divisor at the cost of a row and a column of memory for each matrix.

Shapes of a weight whose averages are kept along its two largest axes, of which it may have more:
    R  rows, the first of the axes in `_find_axes`
    C  columns, the second
"""

import abc
from typing import Annotated, Any, NamedTuple

import annotated_types
import keras
import numpy as np
import tensorflow as tf
from typing_extensions import override

from quintain.optimization import fused_optimizer, parameters, serializable
from quintain.optimization.configs import ranges
from quintain.optimization.rules import decoupled_decay


class _Hyper(NamedTuple):
    learning_rate: tf.Tensor
    decay: tf.Tensor
    count: tf.Tensor


@parameters.declare
class FactoredOptimizer(decoupled_decay.DecoupledDecayOptimizer):
    """Base of both forms of Adafactor: keeps the averages and divides gradients by their roots."""

    @override
    def _prepare_rule(self, variables: list[keras.Variable]) -> None:
        self._axes = tuple(self._find_axes(tuple(variable.shape)) for variable in variables)
        self._averages = [
            self._add_averages(variable, axes)
            for variable, axes in zip(variables, self._axes, strict=True)
        ]
        super()._prepare_rule(variables)

    @abc.abstractmethod
    def _find_axes(self, shape: tuple[int, ...]) -> tuple[int, int] | None:
        """Returns the two axes along which averages of a shape are taken, None for neither."""

    def _add_averages(
        self, variable: keras.Variable, axes: tuple[int, int] | None
    ) -> tuple[keras.Variable, ...]:
        if axes is None:
            return (self.add_variable_from_reference(variable, name="velocity"),)
        shapes = (np.delete(variable.shape, axis).tolist() for axis in axes)
        names = ("row", "column")
        return tuple(
            self._add_slot(variable, shape, name) for shape, name in zip(shapes, names, strict=True)
        )

    def _normalize(
        self, gradient: tf.Tensor, index: int, *, decay: tf.Tensor, epsilon: float
    ) -> tf.Tensor:
        """Updates the averages and returns the gradient divided by the root of them."""
        square = tf.square(gradient) + epsilon  # [R, C]
        slots, axes = self._averages[index], self._axes[index]
        if axes is None:
            velocity = decay * tf.convert_to_tensor(slots[0]) + (1.0 - decay) * square
            fused_optimizer.write(slots[0], velocity)
            return gradient * tf.math.rsqrt(velocity)
        means = []
        for slot, axis in zip(slots, axes, strict=True):
            mean = decay * tf.convert_to_tensor(slot)  # [C], then [R]
            mean += (1.0 - decay) * tf.reduce_mean(square, axis)
            fused_optimizer.write(slot, mean)
            means.append(tf.expand_dims(mean, axis))
        row, column = means  # [1, C], [R, 1]
        # In this order nothing overflows and no divisor vanishes, also where a whole row of a large
        # gradient is 0.
        size = tf.sqrt(tf.reduce_mean(row, axes[1], keepdims=True))  # [1, 1]
        return gradient * tf.math.rsqrt(row) * (tf.math.rsqrt(column) * size)


@serializable.register
@parameters.declare
class Adafactor(FactoredOptimizer):
    """Adafactor, as T5 was trained with.

    With `t` the number of this update, counted from 1, and
    `b = 1 - (t - step_offset) ** -decay_rate`:

        v = b * v + (1 - b) * (g ** 2 + epsilon1)
        u = g / sqrt(v)
        u /= max(1, rms(u) / clipping_threshold)
        u *= lr * max(rms(w), epsilon2)     or, without multiply_by_parameter_scale, u *= lr
        m = beta1 * m + (1 - beta1) * u     or, without beta1, m = u
        w -= m

    `rms` is the root of the mean square. Weights whose two largest axes have
    `min_dim_size_to_factor` numbers or more keep the means `R` and `C` of `v` along these axes
    only, and `v` is `R * C / mean(R)`.

    With `weight_decay`, first `w -= lr * weight_decay * w`.

    Example:
        >>> weight = keras.Variable([2.0])
        >>> optimizer = Adafactor(0.25)
        >>> _ = optimizer.apply_gradients([(tf.constant([3.0]), weight)])
        >>> weight.numpy().round(4).tolist()
        [1.5]

    Source:
        Shazeer and Stern, 2018, algorithms 4 and 5 (https://arxiv.org/abs/1804.04235).
    """

    factored: bool = True
    multiply_by_parameter_scale: bool = True
    beta1: ranges.Fraction | None = None
    decay_rate: ranges.Positive = 0.8
    step_offset: int = 0
    clipping_threshold: ranges.NonNegative | None = 1.0
    """Largest root mean square of an update. None or 0 for no limit."""

    min_dim_size_to_factor: int = 128
    epsilon1: ranges.NonNegative = 1e-30
    epsilon2: ranges.NonNegative = 1e-3
    name: str = "Adafactor"

    @override
    def _declare_slots(self) -> list[dict[str, float]]:
        return [] if self.beta1 is None else [{"momentum": 0.0}]

    @override
    def _find_axes(self, shape: tuple[int, ...]) -> tuple[int, int] | None:
        if not self.factored or len(shape) < 2:
            return None
        *_, second, largest = np.argsort(shape, kind="stable").tolist()
        return (largest, second) if shape[second] >= self.min_dim_size_to_factor else None

    @override
    def _prepare_hyper(self) -> _Hyper:
        count = tf.cast(tf.convert_to_tensor(self._iterations) + 1 - self.step_offset, tf.float32)
        count = tf.maximum(count, 1.0)
        return _Hyper(self._read_learning_rate(), 1.0 - tf.pow(count, -self.decay_rate), count)

    @override
    def _update_variable(self, gradient: Any, variable: keras.Variable, hyper: _Hyper) -> None:
        index = self._get_variable_index(variable)
        learning_rate, decay, _ = (tf.cast(scalar, variable.dtype) for scalar in hyper)
        step = self._normalize(gradient, index, decay=decay, epsilon=self.epsilon1)
        size = learning_rate
        if self.clipping_threshold:
            size /= tf.maximum(compute_rms(step) / self.clipping_threshold, 1.0)
        if self.multiply_by_parameter_scale:
            size *= tf.maximum(compute_rms(tf.convert_to_tensor(variable)), self.epsilon2)
        self._decay(variable, learning_rate)
        change = size * step
        if self.beta1 is not None:
            slot = self._get_slots(variable)["momentum"]
            change = self.beta1 * tf.convert_to_tensor(slot) + (1.0 - self.beta1) * change
            fused_optimizer.write(slot, change)
        fused_optimizer.subtract(variable, change)


@serializable.register
@parameters.declare
class AdafactorKeras(FactoredOptimizer):
    """Adafactor, as Keras has it.

    With `t` the number of this update, counted from 1, and `b = 1 - t ** beta_2_decay`:

        v = b * v + (1 - b) * (g ** 2 + epsilon_1)
        u = g / sqrt(v)
        s = max(epsilon_2, rms(w)) * min(lr, 1 / sqrt(t))
        w -= s * u / max(1, rms(u) / clip_threshold)

    Without `relative_step`, `lr` is used as it is. (Keras 3.15 limits it by `1 / sqrt(t)` in this
    case too.) All weights of two or more axes keep the means of `v` along the last two axes only;
    the class of Keras also stores `v` itself. An infinite `clip_threshold` is no limit.

    With `weight_decay`, first `w -= lr * weight_decay * w`.

    Source:
        Shazeer and Stern, 2018, algorithms 4 and 5 (https://arxiv.org/abs/1804.04235).
    """

    beta_2_decay: ranges.Negative = -0.8
    epsilon_1: ranges.NonNegative = 1e-30
    epsilon_2: ranges.NonNegative = 1e-3
    clip_threshold: Annotated[float, annotated_types.Gt(0)] = 1.0
    relative_step: bool = True
    name: str = "Adafactor"

    @override
    def _find_axes(self, shape: tuple[int, ...]) -> tuple[int, int] | None:
        return (len(shape) - 1, len(shape) - 2) if len(shape) >= 2 else None

    @override
    def _prepare_hyper(self) -> _Hyper:
        count = self._read_count()
        return _Hyper(self._read_learning_rate(), 1.0 - tf.pow(count, self.beta_2_decay), count)

    @override
    def _update_variable(self, gradient: Any, variable: keras.Variable, hyper: _Hyper) -> None:
        index = self._get_variable_index(variable)
        learning_rate, decay, count = (tf.cast(scalar, variable.dtype) for scalar in hyper)
        self._decay(variable, learning_rate)
        if self.relative_step:
            learning_rate = tf.minimum(learning_rate, tf.math.rsqrt(count))
        step = self._normalize(gradient, index, decay=decay, epsilon=self.epsilon_1)
        size = tf.maximum(compute_rms(tf.convert_to_tensor(variable)), self.epsilon_2)
        size *= learning_rate / tf.maximum(compute_rms(step) / self.clip_threshold, 1.0)
        fused_optimizer.subtract(variable, size * step)


def compute_rms(tensor: tf.Tensor) -> tf.Tensor:
    """Returns the root of the mean square of a tensor, `[]` of the same dtype."""
    return tf.sqrt(tf.reduce_mean(tf.square(tensor)))
