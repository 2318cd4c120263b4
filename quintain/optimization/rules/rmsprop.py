"""RMSprop: gradients divided by a running average of their size."""

from typing import Any

import keras
import tensorflow as tf
from typing_extensions import override

from quintain.optimization import fused_optimizer, parameters, serializable
from quintain.optimization.configs import ranges


@serializable.register
@parameters.declare
class RMSprop(fused_optimizer.FusedOptimizer):
    """RMSprop.

        v = rho * v + (1 - rho) * g ** 2
        w -= lr * g / sqrt(v + epsilon)

    With `centered`, the mean gradient `a = rho * a + (1 - rho) * g` is kept too, and
    `max(v - a ** 2, 0)` takes the place of `v` under the root. With `momentum` the change is
    `m = momentum * m + lr * g / sqrt(...)`, then `w -= m`.

    `epsilon` is under the root in all cases, as in Keras 3. (Keras 2 added it to the root, unless
    there was momentum.)

    Example:
        >>> weight = keras.Variable([1.0])
        >>> optimizer = RMSprop(0.5, rho=0.0)
        >>> _ = optimizer.apply_gradients([(tf.constant([3.0]), weight)])
        >>> weight.numpy().round(4).tolist()
        [0.5]

    Source:
        Hinton, 2012, Neural Networks for Machine Learning, lecture 6e; for `centered` Graves, 2013,
        section 4.2 (https://arxiv.org/abs/1308.0850).
    """

    rho: ranges.Fraction = 0.9
    momentum: ranges.Fraction = 0.0
    epsilon: ranges.NonNegative = 1e-7
    centered: bool = False
    name: str = "RMSprop"

    @override
    def _declare_slots(self) -> list[dict[str, float]]:
        names = ["velocity"]
        names += ["momentum"] if self.momentum else []
        names += ["average_gradient"] if self.centered else []
        return [{name: 0.0} for name in names]

    @override
    def _update_variable(self, gradient: Any, variable: keras.Variable, hyper: tf.Tensor) -> None:
        learning_rate = tf.cast(hyper, variable.dtype)
        slots = self._get_slots(variable)
        if self.centered or not self.momentum:
            self._update_plain(gradient, variable, learning_rate)
            return
        tf.raw_ops.ResourceApplyRMSProp(
            var=fused_optimizer.get_handle(variable),
            ms=fused_optimizer.get_handle(slots["velocity"]),
            mom=fused_optimizer.get_handle(slots["momentum"]),
            lr=learning_rate,
            rho=tf.cast(self.rho, variable.dtype),
            momentum=tf.cast(self.momentum, variable.dtype),
            epsilon=tf.cast(self.epsilon, variable.dtype),
            grad=gradient,
        )

    def _update_plain(
        self, gradient: Any, variable: keras.Variable, learning_rate: tf.Tensor
    ) -> None:
        """Updates by plain operations.

        Without momentum the fused kernel would need one more slot. The one for `centered` takes the
        root of a negative number when the gradient hardly changes.
        """
        slots = self._get_slots(variable)
        rho = tf.cast(self.rho, variable.dtype)
        velocity = rho * tf.convert_to_tensor(slots["velocity"])
        velocity += (1.0 - rho) * tf.square(gradient)
        fused_optimizer.write(slots["velocity"], velocity)
        spread = velocity
        if self.centered:
            mean = rho * tf.convert_to_tensor(slots["average_gradient"])
            mean += (1.0 - rho) * gradient
            fused_optimizer.write(slots["average_gradient"], mean)
            spread = tf.maximum(velocity - tf.square(mean), tf.zeros([], velocity.dtype))
        change = learning_rate * gradient * tf.math.rsqrt(spread + self.epsilon)
        if self.momentum:
            change += self.momentum * tf.convert_to_tensor(slots["momentum"])
            fused_optimizer.write(slots["momentum"], change)
        fused_optimizer.subtract(variable, change)
