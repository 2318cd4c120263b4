"""Nadam: Adam with Nesterov momentum."""

from typing import Any, Final, NamedTuple

import keras
import tensorflow as tf
from typing_extensions import override

from quintain.optimization import fused_optimizer, parameters, serializable
from quintain.optimization.configs import ranges

_SCHEDULE_DECAY: Final = 0.96


class _Hyper(NamedTuple):
    learning_rate: tf.Tensor
    mean_share: tf.Tensor
    gradient_share: tf.Tensor
    square_scale: tf.Tensor


@serializable.register
@parameters.declare
class Nadam(fused_optimizer.FusedOptimizer):
    """Nadam.

    With `t` the number of this update, counted from 1, `b(t) = beta_1 * (1 - 0.96 ** t / 2)` and
    `p(t)` the product of all `b` up to `t`:

        m = beta_1 * m + (1 - beta_1) * g
        v = beta_2 * v + (1 - beta_2) * g ** 2
        u = b(t + 1) * m / (1 - p(t + 1)) + (1 - b(t)) * g / (1 - p(t))
        w -= lr * u / (sqrt(v / (1 - beta_2 ** t)) + epsilon)

    Example:
        >>> weight = keras.Variable([1.0])
        >>> optimizer = Nadam(0.5, beta_1=0.0)
        >>> _ = optimizer.apply_gradients([(tf.constant([3.0]), weight)])
        >>> weight.numpy().round(4).tolist()
        [0.5]

    Source:
        Dozat, 2015, algorithm 8 (https://cs229.stanford.edu/proj2015/054_report.pdf).
    """

    beta_1: ranges.Fraction = 0.9
    beta_2: ranges.Fraction = 0.999
    epsilon: ranges.NonNegative = 1e-7
    name: str = "Nadam"

    @override
    def _declare_slots(self) -> list[dict[str, float]]:
        return [{"momentum": 0.0, "velocity": 0.0}]

    @override
    def _prepare_rule(self, variables: list[keras.Variable]) -> None:
        super()._prepare_rule(variables)
        self._product = self._add_slot(
            variables[0], (), "product", dtype="float32", initializer="ones"
        )

    @override
    def _prepare_hyper(self) -> _Hyper:
        count = self._read_count()
        now = self.beta_1 * (1.0 - 0.5 * tf.pow(_SCHEDULE_DECAY, count))
        following = self.beta_1 * (1.0 - 0.5 * tf.pow(_SCHEDULE_DECAY, count + 1.0))
        product = tf.convert_to_tensor(self._product) * now
        fused_optimizer.write(self._product, product)
        return _Hyper(
            learning_rate=self._read_learning_rate(),
            mean_share=following / (1.0 - product * following),
            gradient_share=(1.0 - now) / (1.0 - product),
            square_scale=1.0 / (1.0 - tf.pow(self.beta_2, count)),
        )

    @override
    def _update_variable(self, gradient: Any, variable: keras.Variable, hyper: _Hyper) -> None:
        slots = self._get_slots(variable)
        rate, mean_share, gradient_share, square_scale = (
            tf.cast(scalar, variable.dtype) for scalar in hyper
        )
        momentum, velocity = fused_optimizer.update_moments(
            slots, gradient, self.beta_1, self.beta_2
        )
        mean = mean_share * momentum + gradient_share * gradient
        change = rate * mean / (tf.sqrt(square_scale * velocity) + self.epsilon)
        fused_optimizer.subtract(variable, change)
