"""Adagrad: gradients divided by the root of the sum of all their squares so far."""

from typing import Any

import keras
import tensorflow as tf
from typing_extensions import override

from quintain.optimization import fused_optimizer, parameters, serializable
from quintain.optimization.configs import ranges


@serializable.register
@parameters.declare
class Adagrad(fused_optimizer.FusedOptimizer):
    """Adagrad.

        s += g ** 2
        w -= lr * g / (sqrt(s) + epsilon)

    `s` starts at `initial_accumulator_value`. (Keras 3 adds `epsilon` under the root. With the
    default values the two differ by less than the rounding of float32.)

    Example:
        >>> weight = keras.Variable([1.0])
        >>> optimizer = Adagrad(0.5, initial_accumulator_value=0.0)
        >>> _ = optimizer.apply_gradients([(tf.constant([3.0]), weight)])
        >>> weight.numpy().round(4).tolist()
        [0.5]

    Source:
        Duchi et al., 2011, figure 1 (https://jmlr.org/papers/v12/duchi11a.html).
    """

    initial_accumulator_value: ranges.NonNegative = 0.1
    epsilon: ranges.NonNegative = 1e-7
    name: str = "Adagrad"

    @override
    def _declare_slots(self) -> list[dict[str, float]]:
        return [{"accumulator": self.initial_accumulator_value}]

    @override
    def _is_sparse_update(self) -> bool:
        return not (self._clipping.is_active or self._gradient_transformers)

    @override
    def _update_variable(self, gradient: Any, variable: keras.Variable, hyper: tf.Tensor) -> None:
        accumulator = self._get_slots(variable)["accumulator"]
        if isinstance(gradient, tf.IndexedSlices):
            self._update_rows(gradient, variable, accumulator, tf.cast(hyper, variable.dtype))
            return
        gradient = tf.cast(gradient, variable.dtype)
        tf.raw_ops.ResourceApplyAdagradV2(
            var=fused_optimizer.get_handle(variable),
            accum=fused_optimizer.get_handle(accumulator),
            lr=tf.cast(hyper, variable.dtype),
            epsilon=tf.cast(self.epsilon, variable.dtype),
            grad=gradient,
        )

    def _update_rows(
        self,
        gradient: tf.IndexedSlices,
        variable: keras.Variable,
        accumulator: keras.Variable,
        learning_rate: tf.Tensor,
    ) -> None:
        """Updates the rows that have a gradient; the rule leaves all others as they are.

        TensorFlow's sparse kernel can't be compiled by XLA and takes repeated rows one by one.

        Shapes:
            N  rows of the gradient, some of them repeated
            U  different rows
            D  width of a row
        """
        rows, positions = tf.unique(gradient.indices)  # [U], [N]
        values = tf.cast(gradient.values, variable.dtype)  # [N, D]
        values = tf.math.unsorted_segment_sum(values, positions, tf.size(rows))  # [U, D]
        handle = fused_optimizer.get_handle(accumulator)
        tf.raw_ops.ResourceScatterAdd(resource=handle, indices=rows, updates=tf.square(values))
        sums = tf.raw_ops.ResourceGather(
            resource=handle, indices=rows, dtype=variable.dtype
        )  # [U, D]
        change = learning_rate * values / (tf.sqrt(sums) + self.epsilon)
        tf.raw_ops.ResourceScatterSub(
            resource=fused_optimizer.get_handle(variable), indices=rows, updates=change
        )
