"""Adadelta: steps whose size follows from the sizes of former gradients and steps."""

from typing import Any

import keras
import tensorflow as tf
from typing_extensions import override

from quintain.optimization import fused_optimizer, parameters, serializable
from quintain.optimization.configs import ranges


@serializable.register
@parameters.declare
class Adadelta(fused_optimizer.FusedOptimizer):
    """Adadelta.

        a = rho * a + (1 - rho) * g ** 2
        u = sqrt(d + epsilon) / sqrt(a + epsilon) * g
        d = rho * d + (1 - rho) * u ** 2
        w -= lr * u

    The paper has a learning rate of 1.

    Example:
        >>> weight = keras.Variable([1.0])
        >>> optimizer = Adadelta(0.5, rho=0.0, epsilon=1.0)
        >>> _ = optimizer.apply_gradients([(tf.constant([0.0]), weight)])
        >>> weight.numpy().tolist()
        [1.0]

    Source:
        Zeiler, 2012, algorithm 1 (https://arxiv.org/abs/1212.5701).
    """

    rho: ranges.Fraction = 0.95
    epsilon: ranges.NonNegative = 1e-7
    name: str = "Adadelta"

    @override
    def _declare_slots(self) -> list[dict[str, float]]:
        return [{"accumulated_grad": 0.0, "accumulated_delta_var": 0.0}]

    @override
    def _update_variable(self, gradient: Any, variable: keras.Variable, hyper: tf.Tensor) -> None:
        slots = self._get_slots(variable)
        tf.raw_ops.ResourceApplyAdadelta(
            var=fused_optimizer.get_handle(variable),
            accum=fused_optimizer.get_handle(slots["accumulated_grad"]),
            accum_update=fused_optimizer.get_handle(slots["accumulated_delta_var"]),
            lr=tf.cast(hyper, variable.dtype),
            rho=tf.cast(self.rho, variable.dtype),
            epsilon=tf.cast(self.epsilon, variable.dtype),
            grad=gradient,
        )
