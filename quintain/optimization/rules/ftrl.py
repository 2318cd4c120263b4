"""FTRL: follow the regularised leader, for sparse linear models."""

from typing import Any

import keras
import tensorflow as tf
from typing_extensions import override

from quintain.optimization import fused_optimizer, parameters, serializable
from quintain.optimization.configs import ranges


@serializable.register
@parameters.declare
class Ftrl(fused_optimizer.FusedOptimizer):
    """Follow the regularised leader, by coordinate.

    With `p = -learning_rate_power`, `l2 = l2_regularization_strength + beta / (2 * lr)`:

        h = g + 2 * l2_shrinkage_regularization_strength * w
        z += h - ((n + g ** 2) ** p - n ** p) / lr * w
        n += g ** 2
        w = (clip(z, -l1, l1) - z) / (n ** p / lr + 2 * l2)

    `n` starts at `initial_accumulator_value`, `z` at 0: the first update draws weights that were
    not 0 towards 0. The rule is made for a constant learning rate; weights change in proportion to
    one that changes. An update with a learning rate of 0, as a warm-up begins with, does nothing.

    Example:
        >>> weight = keras.Variable([0.0])
        >>> optimizer = Ftrl(0.5, initial_accumulator_value=0.0)
        >>> _ = optimizer.apply_gradients([(tf.constant([3.0]), weight)])
        >>> weight.numpy().tolist()
        [-0.5]

    Source:
        McMahan et al., 2013, algorithm 1 (https://research.google.com/pubs/archive/41159.pdf).
    """

    learning_rate_power: ranges.NonPositive = -0.5
    initial_accumulator_value: ranges.NonNegative = 0.1
    l1_regularization_strength: ranges.NonNegative = 0.0
    l2_regularization_strength: ranges.NonNegative = 0.0
    l2_shrinkage_regularization_strength: ranges.NonNegative = 0.0
    beta: ranges.NonNegative = 0.0
    name: str = "Ftrl"

    @override
    def _declare_slots(self) -> list[dict[str, float]]:
        return [{"accumulator": self.initial_accumulator_value, "linear": 0.0}]

    @override
    def _update_variable(self, gradient: Any, variable: keras.Variable, hyper: tf.Tensor) -> None:
        # With a learning rate of 0 the formula would divide by 0.
        tf.cond(
            hyper > 0.0,
            lambda: self._apply_kernel(gradient, variable, tf.cast(hyper, variable.dtype)),
            lambda: None,
        )

    def _apply_kernel(
        self, gradient: tf.Tensor, variable: keras.Variable, learning_rate: tf.Tensor
    ) -> None:
        slots = self._get_slots(variable)
        tf.raw_ops.ResourceApplyFtrlV2(
            var=fused_optimizer.get_handle(variable),
            accum=fused_optimizer.get_handle(slots["accumulator"]),
            linear=fused_optimizer.get_handle(slots["linear"]),
            grad=gradient,
            lr=learning_rate,
            l1=tf.cast(self.l1_regularization_strength, variable.dtype),
            l2=self.l2_regularization_strength + self.beta / (2.0 * learning_rate),
            l2_shrinkage=tf.cast(self.l2_shrinkage_regularization_strength, variable.dtype),
            lr_power=tf.cast(self.learning_rate_power, variable.dtype),
        )
