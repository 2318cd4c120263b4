"""Adamax: Adam with the largest gradient instead of the mean square."""

from typing import Any, NamedTuple

import keras
import tensorflow as tf
from typing_extensions import override

from quintain.optimization import fused_optimizer, parameters, serializable
from quintain.optimization.configs import ranges


class _Hyper(NamedTuple):
    learning_rate: tf.Tensor
    beta_1_power: tf.Tensor


@serializable.register
@parameters.declare
class Adamax(fused_optimizer.FusedOptimizer):
    """Adamax.

    With `t` the number of this update, counted from 1:

        m = beta_1 * m + (1 - beta_1) * g
        u = max(beta_2 * u, abs(g))
        w -= lr / (1 - beta_1 ** t) * m / (u + epsilon)

    Example:
        >>> weight = keras.Variable([1.0])
        >>> optimizer = Adamax(0.5)
        >>> _ = optimizer.apply_gradients([(tf.constant([3.0]), weight)])
        >>> weight.numpy().round(4).tolist()
        [0.5]

    Source:
        Kingma and Ba, 2015, algorithm 2 (https://arxiv.org/abs/1412.6980).
    """

    beta_1: ranges.Fraction = 0.9
    beta_2: ranges.Fraction = 0.999
    epsilon: ranges.NonNegative = 1e-7
    name: str = "Adamax"

    @override
    def _declare_slots(self) -> list[dict[str, float]]:
        return [{"momentum": 0.0, "norm": 0.0}]

    @override
    def _prepare_hyper(self) -> _Hyper:
        return _Hyper(self._read_learning_rate(), tf.pow(self.beta_1, self._read_count()))

    @override
    def _update_variable(self, gradient: Any, variable: keras.Variable, hyper: _Hyper) -> None:
        slots = self._get_slots(variable)
        tf.raw_ops.ResourceApplyAdaMax(
            var=fused_optimizer.get_handle(variable),
            m=fused_optimizer.get_handle(slots["momentum"]),
            v=fused_optimizer.get_handle(slots["norm"]),
            beta1_power=tf.cast(hyper.beta_1_power, variable.dtype),
            lr=tf.cast(hyper.learning_rate, variable.dtype),
            beta1=tf.cast(self.beta_1, variable.dtype),
            beta2=tf.cast(self.beta_2, variable.dtype),
            epsilon=tf.cast(self.epsilon, variable.dtype),
            grad=gradient,
        )
