"""Stochastic gradient descent."""

import dataclasses
from typing import Any, ClassVar

import keras
import tensorflow as tf
from typing_extensions import override

from quintain.optimization import fused_optimizer, parameters, serializable
from quintain.optimization.configs import ranges
from quintain.optimization.schedules import lr_schedule


@serializable.register
@parameters.declare
class SGD(fused_optimizer.FusedOptimizer):
    """Stochastic gradient descent, with or without momentum.

    Without momentum `w -= lr * g`. With momentum `m = momentum * m - lr * g`, then `w += m`, or
    `w += momentum * m - lr * g` if `nesterov`.

    Example:
        >>> weight = keras.Variable([1.0])
        >>> optimizer = SGD(0.5)
        >>> _ = optimizer.apply_gradients([(tf.constant([1.0]), weight)])
        >>> weight.numpy().tolist()
        [0.5]

    Source:
        Sutskever et al., 2013, section 2 (https://proceedings.mlr.press/v28/sutskever13.html).
    """

    GRADIENT_SCALING: ClassVar = "linear"

    learning_rate: dataclasses.InitVar[lr_schedule.LearningRate] = dataclasses.field(
        default=0.01, kw_only=False
    )

    momentum: ranges.Fraction = 0.0
    nesterov: bool = False
    decay: ranges.NonNegative = dataclasses.field(default=0.0, repr=False)
    name: str = "SGD"

    @override
    def _find_learning_rate(self, given: lr_schedule.LearningRate) -> lr_schedule.LearningRate:
        return lr_schedule.divide_over_time(super()._find_learning_rate(given), self.decay)

    @override
    def _declare_slots(self) -> list[dict[str, float]]:
        return [{"momentum": 0.0}] if self.momentum else []

    @override
    def _is_sparse_update(self) -> bool:
        return not (self.momentum or self._clipping.is_active or self._gradient_transformers)

    @override
    def _update_variable(self, gradient: Any, variable: keras.Variable, hyper: tf.Tensor) -> None:
        handle = fused_optimizer.get_handle(variable)
        learning_rate = tf.cast(self._scale_rate(hyper, variable), variable.dtype)
        if isinstance(gradient, tf.IndexedSlices):
            tf.raw_ops.ResourceScatterSub(
                resource=handle,
                indices=gradient.indices,
                updates=learning_rate * tf.cast(gradient.values, variable.dtype),
            )
        elif self.momentum:
            tf.raw_ops.ResourceApplyKerasMomentum(
                var=handle,
                accum=fused_optimizer.get_handle(self._get_slots(variable)["momentum"]),
                lr=learning_rate,
                grad=tf.cast(gradient, variable.dtype),
                momentum=tf.cast(self.momentum, variable.dtype),
                use_nesterov=self.nesterov,
            )
        else:
            tf.raw_ops.ResourceApplyGradientDescent(
                var=handle, alpha=learning_rate, delta=tf.cast(gradient, variable.dtype)
            )
