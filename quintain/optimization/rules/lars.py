"""LARS: momentum with a step relative to the size of each weight, for very large batches."""

import dataclasses
from typing import Any, ClassVar

import keras
import tensorflow as tf
from typing_extensions import override

from quintain.optimization import fused_optimizer, parameters, serializable
from quintain.optimization.configs import ranges
from quintain.optimization.rules import layer_adaptation
from quintain.optimization.schedules import lr_schedule


@serializable.register
@parameters.declare
class LARS(layer_adaptation.LayerAdaptiveOptimizer):
    """LARS.

    First `g += weight_decay_rate * w`. With classic momentum, the learning rate is part of it:

        r = eeta * norm(w) / norm(g)
        m = momentum * m + lr * r * g
        w -= m                              or, if nesterov, momentum * m + lr * r * g

    With popular momentum (`classic_momentum=False`), it is applied afterwards:

        m = momentum * m + g
        u = m                               or, if nesterov, momentum * m + g
        w -= lr * eeta * norm(w) / norm(u) * u

    The trust ratio, with its `eeta`, is 1 if one of the norms is 0, and for excluded weights. Which
    weights decay, and which have that ratio, is decided by regular expressions that are searched
    for in their paths.

    Example:
        >>> weight = keras.Variable([2.0])
        >>> optimizer = LARS(1.0, eeta=0.25)
        >>> _ = optimizer.apply_gradients([(tf.constant([3.0]), weight)])
        >>> weight.numpy().tolist()
        [1.5]

    Source:
        You et al., 2017, algorithm 1 (https://arxiv.org/abs/1708.03888).
    """

    POSITIONAL: ClassVar = (
        "momentum",
        "weight_decay_rate",
        "eeta",
        "nesterov",
        "classic_momentum",
        "exclude_from_weight_decay",
        "exclude_from_layer_adaptation",
        "name",
    )

    learning_rate: dataclasses.InitVar[lr_schedule.LearningRate] = dataclasses.field(
        default=0.01, kw_only=False
    )

    momentum: ranges.Fraction = 0.9
    eeta: ranges.Positive = 0.001
    nesterov: bool = False
    classic_momentum: bool = True
    name: str = "LARS"

    @override
    def _declare_slots(self) -> list[dict[str, float]]:
        return [{"momentum": 0.0}]

    @override
    def _update_variable(self, gradient: Any, variable: keras.Variable, hyper: tf.Tensor) -> None:
        index = self._get_variable_index(variable)
        slot = self._get_slots(variable)["momentum"]
        learning_rate = tf.cast(hyper, variable.dtype)
        weight = tf.convert_to_tensor(variable)
        if self._decays[index]:
            gradient += self.weight_decay_rate * weight
        if self.classic_momentum:
            learning_rate *= self._compute_ratio(index, weight, gradient)
            # The kernel keeps the negative of `m`.
            tf.raw_ops.ResourceApplyKerasMomentum(
                var=fused_optimizer.get_handle(variable),
                accum=fused_optimizer.get_handle(slot),
                lr=learning_rate,
                grad=gradient,
                momentum=tf.cast(self.momentum, variable.dtype),
                use_nesterov=self.nesterov,
            )
            return
        momentum = self.momentum * tf.convert_to_tensor(slot) + gradient
        fused_optimizer.write(slot, momentum)
        step = self.momentum * momentum + gradient if self.nesterov else momentum
        learning_rate *= self._compute_ratio(index, weight, step)
        fused_optimizer.subtract(variable, learning_rate * step)

    def _compute_ratio(self, index: int, weight: tf.Tensor, step: tf.Tensor) -> tf.Tensor:
        if not self._adapts[index]:
            return tf.ones([], weight.dtype)
        return layer_adaptation.compute_trust_ratio(weight, step, self.eeta)
