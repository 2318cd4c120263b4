"""Stochastic gradient descent."""

from typing import Any, NamedTuple

import keras
import tensorflow as tf
from typing_extensions import override

from quintain.optimization import fused_optimizer, lr_schedule


class _Hyper(NamedTuple):
    learning_rate: tf.Tensor


@keras.saving.register_keras_serializable("quintain")
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

    def __init__(
        self,
        learning_rate: lr_schedule.LearningRate = 0.01,
        *,
        momentum: float = 0.0,
        nesterov: bool = False,
        decay: float = 0.0,
        name: str = "SGD",
        **shared: Any,
    ) -> None:
        """Stores the parameters of the rule.

        Args:
            learning_rate: A constant or a schedule.
            momentum: Fraction of the last update that is repeated, in `[0, 1)`.
            nesterov: Whether momentum looks one step ahead.
            decay: Divides the learning rate of update `t` by `1 + decay * t`.
            name: Name of the optimizer.
            **shared: Arguments of `FusedOptimizer`.

        Raises:
            ValueError: If `momentum` or `decay` is out of range.
        """
        if not 0.0 <= momentum < 1.0:
            raise ValueError(f"`0 <= momentum < 1` must hold, but got {momentum=}.")
        if decay != 0.0:
            learning_rate = lr_schedule.InverseTimeDecay(learning_rate, decay)
        super().__init__(learning_rate, name=name, **shared)
        self.momentum = float(momentum)
        self.nesterov = bool(nesterov)
        self._momentums: list[keras.Variable] = []

    @override
    def build(self, variables: Any) -> None:
        if self.built:
            return
        super().build(variables)
        if self.momentum:
            self._momentums = self.add_optimizer_variables(list(variables), "momentum")

    @override
    def _is_sparse_update(self) -> bool:
        return not (self.momentum or self._clipping.is_active or self._gradient_transformers)

    @override
    def _prepare_hyper(self) -> _Hyper:
        return _Hyper(self._read_learning_rate())

    @override
    def _update_variable(self, gradient: Any, variable: keras.Variable, hyper: _Hyper) -> None:
        handle = fused_optimizer.get_handle(variable)
        learning_rate = tf.cast(hyper.learning_rate, variable.dtype)
        if isinstance(gradient, tf.IndexedSlices):
            tf.raw_ops.ResourceScatterSub(
                resource=handle,
                indices=gradient.indices,
                updates=learning_rate * tf.cast(gradient.values, variable.dtype),
            )
        elif self.momentum:
            tf.raw_ops.ResourceApplyKerasMomentum(
                var=handle,
                accum=fused_optimizer.get_handle(
                    self._momentums[self._get_variable_index(variable)]
                ),
                lr=learning_rate,
                grad=tf.cast(gradient, variable.dtype),
                momentum=tf.cast(self.momentum, variable.dtype),
                use_nesterov=self.nesterov,
            )
        else:
            tf.raw_ops.ResourceApplyGradientDescent(
                var=handle, alpha=learning_rate, delta=tf.cast(gradient, variable.dtype)
            )

    @override
    def get_config(self) -> dict[str, Any]:
        return super().get_config() | {"momentum": self.momentum, "nesterov": self.nesterov}
