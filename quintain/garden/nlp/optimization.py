"""Optimizers without a config, for training loops written before there were any."""

import dataclasses
from typing import Final

import tensorflow as tf
from typing_extensions import override

from quintain.optimization import fused_optimizer, serializable
from quintain.optimization.configs import ranges
from quintain.optimization.rules import adam, lamb
from quintain.optimization.schedules import lr_schedule

_EXCLUDED: Final = ("LayerNorm", "layer_norm", "bias")
"""Paths of weights that do not decay, as in BERT."""

AdamWeightDecay = adam.AdamWeightDecay
LAMB = lamb.LAMB

_BUILDERS: Final = {"adamw": adam.AdamWeightDecay, "lamb": lamb.LAMB}


@serializable.register
@dataclasses.dataclass(eq=False, repr=False)
class WarmUp(lr_schedule.StepSchedule):
    """Rises to a given rate along a power, and then follows a schedule.

    `initial_learning_rate * (s / W) ** power` below step `W = warmup_steps`, then `f(s)`; `f` is
    the schedule. Other than `lr_schedule.PolynomialWarmUp` it rises to a rate of its own, not to
    `f(W)`.
    """

    initial_learning_rate: float
    """Learning rate that the warm-up leads to."""

    decay_schedule_fn: lr_schedule.WrappedRate
    """Schedule or constant after the warm-up."""

    warmup_steps: ranges.Period
    """Steps that the warm-up takes."""

    power: ranges.Positive = 1.0
    """Positive exponent."""

    name: str | None = None
    """Name for display."""

    @override
    def _compute_rate(self, step: tf.Tensor) -> tf.Tensor:
        last = float(self.warmup_steps)
        rising = self.initial_learning_rate * tf.pow(tf.minimum(step / last, 1.0), self.power)
        return tf.where(step < last, rising, lr_schedule.evaluate(self.decay_schedule_fn, step))


def create_optimizer(
    init_lr: float,
    num_train_steps: int,
    num_warmup_steps: int,
    end_lr: float = 0.0,
    optimizer_type: str = "adamw",
    beta_1: float = 0.9,
    poly_power: float = 1.0,
) -> fused_optimizer.FusedOptimizer:
    """Creates the optimizer that BERT was trained with, or LAMB.

    The learning rate falls along a polynomial, after a linear warm-up. Weights decay by 0.01, but
    for biases and the weights of layer normalisation.

    Example:
        >>> optimizer = create_optimizer(1e-4, num_train_steps=100, num_warmup_steps=10)
        >>> [round(float(optimizer.learning_rate_schedule(step)), 6) for step in (5, 50, 100)]
        [5e-05, 5e-05, 0.0]

    Args:
        init_lr: Learning rate from which the polynomial falls, at step 0.
        num_train_steps: Steps until it is at its end.
        num_warmup_steps: Steps of the warm-up; 0 for none.
        end_lr: Learning rate at the end.
        optimizer_type: `adamw` or `lamb`.
        beta_1: Decay of the mean of gradients, in `[0, 1)`.
        poly_power: Exponent of the polynomial.

    Raises:
        ValueError: If `optimizer_type` is unknown, or a number is out of range.
    """
    if optimizer_type not in _BUILDERS:
        raise ValueError(
            f"optimizer_type: got {optimizer_type!r}, expected one of {', '.join(_BUILDERS)}."
        )
    rate: lr_schedule.StepSchedule = lr_schedule.PolynomialDecayWithOffset(
        init_lr, num_train_steps, end_learning_rate=end_lr, power=poly_power
    )
    if num_warmup_steps:
        rate = WarmUp(init_lr, rate, num_warmup_steps)
    return _BUILDERS[optimizer_type](
        rate,
        weight_decay_rate=0.01,
        beta_1=beta_1,
        beta_2=0.999,
        epsilon=1e-6,
        exclude_from_weight_decay=_EXCLUDED,
    )
