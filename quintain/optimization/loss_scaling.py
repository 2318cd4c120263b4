"""Training in float16: a scaled loss, so that small gradients do not vanish.

A step multiplies the loss by the scale, and `apply` divides the gradients by it:

    with tf.GradientTape() as tape:
        loss = optimizer.scale_loss(compute_loss(...))
    optimizer.apply_gradients(zip(tape.gradient(loss, variables), variables))

Steps written for older versions of Keras work as well: they ask whether the optimizer is a
`keras.optimizers.LossScaleOptimizer`, call `get_scaled_loss`, and then `get_unscaled_gradients`.
"""

import logging
import math
import numbers
import threading
from collections.abc import Sequence
from typing import Any, Final

import keras
import tensorflow as tf
from typing_extensions import override

from quintain.optimization import (
    dense_gradients,
    gradient_accumulation,
    optimizer_wrapper,
    serializable,
)

_LOGGER = logging.getLogger(__name__)
_LOCAL: Final = threading.local()  # A replica has a thread of its own.


def scale_loss(
    optimizer: keras.optimizers.Optimizer, loss_scale: str | float | None
) -> "LossScaleOptimizer":
    """Returns an optimizer that scales the loss, around another one.

    Args:
        optimizer: The optimizer that updates the weights.
        loss_scale: The factor, or `dynamic` or None to adapt it during training.

    Raises:
        ValueError: If `loss_scale` is neither a positive number nor `dynamic`.
    """
    if loss_scale is None or loss_scale == "dynamic":
        return LossScaleOptimizer(optimizer)
    if not isinstance(loss_scale, numbers.Real):
        raise ValueError(  # noqa: TRY004 - a wrong value like any other
            f"loss_scale: got {loss_scale!r}, expected a number or 'dynamic'."
        )
    return FixedLossScaleOptimizer(optimizer, float(loss_scale))


@serializable.register
class LossScaleOptimizer(keras.optimizers.LossScaleOptimizer):
    """Skips an update and halves the scale when a gradient is not finite, on any replica.

    The class of Keras looks at the first replica only: a gradient that overflows on another one
    reaches the weights. (Keras 3.15, `LossScaleOptimizer._tf_apply`.)

    Around a `GradientAccumulation`, the gradients of all batches are looked at together.
    """

    _is_loss_scaled = False
    _has_warned = False

    @property
    def dynamic(self) -> bool:
        """True if the scale adapts during training."""
        return True

    @property
    def learning_rate_schedule(self) -> keras.optimizers.schedules.LearningRateSchedule | None:
        """The schedule of the inner optimizer; None if its learning rate is a constant."""
        # An optimizer of Keras gives the present value only.
        return getattr(self.inner_optimizer, "learning_rate_schedule", None)

    @override
    def scale_loss(self, loss: tf.Tensor) -> tf.Tensor:
        """Multiplies a loss by the scale."""
        self._is_loss_scaled = True
        return super().scale_loss(loss)

    def get_scaled_loss(self, loss: tf.Tensor) -> tf.Tensor:
        """Multiplies a loss by the scale, under the name that older versions of Keras gave it."""
        return self.scale_loss(loss)

    def get_unscaled_gradients(self, grads: Sequence[Any]) -> list[Any]:
        """Divides gradients by the scale; the next call of `apply` on this replica does not.

        For steps that were written for older versions of Keras. Others need it only to look at the
        gradients or to change them before `apply`.
        """
        _LOCAL.unscaled_by = self
        return _multiply(grads, 1 / self._read_scale())

    @override
    def apply(
        self, grads: Sequence[Any], trainable_variables: Sequence[keras.Variable] | None = None
    ) -> None:
        """Divides gradients by the scale and updates the weights by the inner optimizer.

        Args:
            grads: Gradients of the scaled loss, or what `get_unscaled_gradients` made of them.
            trainable_variables: The variables; all that the optimizer was built for by default.
        """
        if not self.built:
            self.build(list(trainable_variables or ()))
        if getattr(_LOCAL, "unscaled_by", None) is self:
            _LOCAL.unscaled_by = None
            grads = _multiply(grads, self._read_scale())
        elif not self._is_loss_scaled:
            self._warn_once()
        accumulation = optimizer_wrapper.find_wrapper(
            self.inner_optimizer, gradient_accumulation.GradientAccumulation
        )
        if accumulation is not None:
            if accumulation.is_accumulating:
                accumulation.apply(grads, trainable_variables)
                return
            grads = accumulation.take(grads, trainable_variables)
        self._apply_scaled(grads, trainable_variables)

    @override
    def check_finite(self, grads: Sequence[Any]) -> tf.Tensor:
        """Returns whether the gradients of all replicas are finite, as a `[]` bool."""
        is_finite = super().check_finite(grads)
        context = tf.distribute.get_replica_context()
        if context is None or context.num_replicas_in_sync == 1:
            return is_finite
        num_faulty = tf.cast(tf.logical_not(is_finite), tf.float32)
        return tf.equal(context.all_reduce(tf.distribute.ReduceOp.SUM, num_faulty), 0.0)

    def _read_scale(self) -> tf.Tensor:
        scale = self.dynamic_scale if self.built else self.initial_scale
        return tf.cast(tf.convert_to_tensor(scale), tf.float32)

    def _apply_scaled(self, grads: Sequence[Any], variables: Sequence[Any] | None) -> None:
        super().apply(grads, variables)

    def _warn_once(self) -> None:
        if not self._has_warned:
            self._has_warned = True
            _LOGGER.warning(
                "The gradients are divided by the loss scale, but `scale_loss` of the optimizer "
                "has never been called. If the step does not scale the loss by itself, updates are "
                "too small: take the gradients of `optimizer.scale_loss(loss)`."
            )


@serializable.register
class FixedLossScaleOptimizer(LossScaleOptimizer):
    """Scales the loss by a factor that stays, and does every update.

    Example:
        >>> weight = keras.Variable([1.0])
        >>> optimizer = FixedLossScaleOptimizer(keras.optimizers.SGD(0.5), 128.0)
        >>> with tf.GradientTape() as tape:
        ...     loss = optimizer.scale_loss(tf.reduce_sum(weight.value))
        >>> gradients = tape.gradient(loss, [weight.value])
        >>> _ = optimizer.apply_gradients(zip(gradients, [weight]))
        >>> weight.numpy().tolist()
        [0.5]
    """

    def __init__(
        self,
        inner_optimizer: keras.optimizers.Optimizer,
        loss_scale: float,
        name: str = "FixedLossScaleOptimizer",
    ) -> None:
        """Wraps the optimizer that updates the weights.

        Raises:
            ValueError: If `loss_scale` is not a positive finite number.
        """
        if not (math.isfinite(loss_scale) and loss_scale > 0):
            raise ValueError(f"loss_scale: got {loss_scale!r}, expected a finite number above 0.")
        super().__init__(inner_optimizer, initial_scale=float(loss_scale), name=name)

    @property
    @override
    def dynamic(self) -> bool:
        return False

    @property
    def dynamic_scale(self) -> float:
        """The factor, under the name that an adaptive one has."""
        return self.initial_scale

    @override
    def build(self, var_list: Sequence[keras.Variable]) -> None:
        """Prepares the inner optimizer; a scale that stays needs no variables."""
        self.inner_optimizer.build(var_list)
        keras.optimizers.Optimizer.build(self, list(var_list))

    @override
    def get_config(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "inner_optimizer": keras.saving.serialize_keras_object(self.inner_optimizer),
            "loss_scale": self.initial_scale,
        }

    @override
    def _apply_scaled(self, grads: Sequence[Any], variables: Sequence[Any] | None) -> None:
        self.inner_optimizer.apply(_multiply(grads, 1 / self._read_scale()), variables)


def _multiply(gradients: Sequence[Any], factor: tf.Tensor) -> list[Any]:
    return [
        None if gradient is None else dense_gradients.multiply(gradient, factor)
        for gradient in gradients
    ]
