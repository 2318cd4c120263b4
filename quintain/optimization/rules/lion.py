"""Lion: steps of the same size for all weights, in the direction of a sign."""

from typing import Any

import keras
import tensorflow as tf
from typing_extensions import override

from quintain.optimization import fused_optimizer, parameters, serializable
from quintain.optimization.configs import ranges
from quintain.optimization.rules import decoupled_decay


@serializable.register
@parameters.declare
class Lion(decoupled_decay.DecoupledDecayOptimizer):
    """Lion.

        w -= lr * sign(beta_1 * m + (1 - beta_1) * g)
        m = beta_2 * m + (1 - beta_2) * g

    With `weight_decay`, first `w -= lr * weight_decay * w`. A good learning rate is 3 to 10 times
    smaller than that of Adam, with a decay that is as many times larger.

    Example:
        >>> weight = keras.Variable([1.0])
        >>> optimizer = Lion(0.5)
        >>> _ = optimizer.apply_gradients([(tf.constant([3.0]), weight)])
        >>> weight.numpy().tolist()
        [0.5]

    Source:
        Chen et al., 2023, program 1 (https://arxiv.org/abs/2302.06675).
    """

    beta_1: ranges.Fraction = 0.9
    beta_2: ranges.Fraction = 0.99
    name: str = "Lion"

    @override
    def _declare_slots(self) -> list[dict[str, float]]:
        return [{"momentum": 0.0}]

    @override
    def _update_variable(self, gradient: Any, variable: keras.Variable, hyper: tf.Tensor) -> None:
        learning_rate = tf.cast(hyper, variable.dtype)
        slot = self._get_slots(variable)["momentum"]
        momentum = tf.convert_to_tensor(slot)
        self._decay(variable, learning_rate)
        direction = tf.sign(self.beta_1 * momentum + (1.0 - self.beta_1) * gradient)
        fused_optimizer.subtract(variable, learning_rate * direction)
        momentum = self.beta_2 * momentum + (1.0 - self.beta_2) * gradient
        fused_optimizer.write(slot, momentum)
