"""The differentially private training step and the optimizer that belongs to it.

Every example's gradient is clipped to `clipping_norm` and the clipped gradients are summed, on each
replica. The optimizer adds up the replicas' sums, adds noise and divides by the number of examples
(see `quintain.optimization.privacy`), and then updates the weights like any other.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import keras
import tensorflow as tf

from quintain import errors
from quintain.core.privacy import private_gradients
from quintain.input import poisson_sampling
from quintain.optimization import (
    dense_gradients,
    loss_scaling,
    optimizer_factory,
    optimizer_wrapper,
    privacy,
)
from quintain.optimization.configs import optimization_config
from quintain.settings import config_definitions as cfg

_FIELD = "task.differential_privacy_config"


class StepResult(NamedTuple):
    """Result of a step, without rows of padding."""

    loss: tf.Tensor
    """Scalar: mean loss of this replica's examples; 0 if there is none."""

    labels: Any
    """Labels."""

    outputs: Any
    """Outputs of the model."""


class PrivateStep:
    """The forward and backward pass of one replica, and the update of the weights."""

    def __init__(
        self, dp_config: cfg.DifferentialPrivacyConfig, loss_fn: private_gradients.LossFn
    ) -> None:
        self._dp_config = dp_config
        self._loss_fn = loss_fn
        self._computations: dict[int, private_gradients.ClippedGradients] = {}

    def run(
        self,
        inputs: Any,
        split_inputs: Callable[[Any], tuple[Any, Any]],
        model: keras.Model,
        optimizer: keras.optimizers.Optimizer,
    ) -> StepResult:
        """Does one step.

        Raises:
            ConfigError: If a layer mixes examples, or the optimizer adds no noise.
        """
        batch = poisson_sampling.to_batch(inputs)
        features, labels = split_inputs(batch.inputs)
        computation = self._get_computation(model, optimizer)
        result = computation.compute(features, labels, batch.is_real)
        scale = optimizer.scale_loss(tf.ones([]))  # The optimizer divides by it again.
        sums = [
            None if part is None else dense_gradients.multiply(part, scale)
            for part in result.gradients
        ]
        with privacy.private_sum_applied(_sum_over_replicas(batch.expected_size)):
            optimizer.apply_gradients(zip(sums, model.trainable_variables, strict=True))

        if not isinstance(inputs, poisson_sampling.PoissonBatch):
            return StepResult(tf.reduce_mean(result.losses), labels, result.outputs)
        losses, labels, outputs = tf.nest.map_structure(
            lambda part: tf.boolean_mask(part, batch.is_real),
            (result.losses, labels, result.outputs),
        )
        num_real = tf.cast(tf.size(losses), losses.dtype)
        return StepResult(tf.math.divide_no_nan(tf.reduce_sum(losses), num_real), labels, outputs)

    def _get_computation(
        self, model: keras.Model, optimizer: keras.optimizers.Optimizer
    ) -> private_gradients.ClippedGradients:
        if id(model) not in self._computations:
            self._computations[id(model)] = private_gradients.ClippedGradients(
                model,
                self._loss_fn,
                clipping_norm=self._dp_config.clipping_norm,
                microbatch_size=self._dp_config.microbatch_size,
                num_microbatches=self._dp_config.num_microbatches,
                loss_scale=_get_loss_scale(optimizer),
            )
        return self._computations[id(model)]


def build_optimizer(
    factory: optimizer_factory.OptimizerFactory, dp_config: cfg.DifferentialPrivacyConfig
) -> keras.optimizers.Optimizer:
    """Builds an optimizer whose first gradient transformer adds the noise.

    Raises:
        ConfigError: If the noise is not known yet.
    """
    if dp_config.target_epsilon is not None:
        raise errors.ConfigError(
            f"{_FIELD}.target_epsilon: got {dp_config.target_epsilon!r}, but the noise for it "
            "depends on the steps and the data. Call privacy_accounting.resolve(params, task) "
            "first and give its result to create_optimizer."
        )
    mechanism = privacy.GaussianMechanism(
        clipping_norm=dp_config.clipping_norm,
        noise_multiplier=dp_config.noise_multiplier,
        seed=dp_config.noise_seed,
    )
    optimizer = factory.build_optimizer(
        factory.build_learning_rate(), gradient_transformers=[mechanism]
    )
    mechanism.follow(lambda: optimizer.iterations)
    return optimizer


def check_optimizer(
    optimizer_config: optimization_config.OptimizationConfig,
    runtime_config: cfg.RuntimeConfig | None,
) -> None:
    """Checks that nothing comes between clipping and noise.

    Raises:
        ConfigError: With dynamic loss scaling, accumulation of gradients or rematerialization.
    """
    num_batches = optimizer_config.gradient_accumulation_steps
    if num_batches > 1:
        raise errors.ConfigError(
            f"trainer.optimizer_config.gradient_accumulation_steps: got {num_batches} with "
            f"{_FIELD}. Raise the batch size instead; {_FIELD}.microbatch_size bounds the memory."
        )
    if runtime_config is not None and runtime_config.rematerialize:
        raise errors.ConfigError(
            f"runtime.rematerialize: got True with {_FIELD}, whose gradients are those of single "
            f"examples. Leave it out; {_FIELD}.microbatch_size bounds the memory."
        )
    if runtime_config is None or runtime_config.mixed_precision_dtype != "float16":
        return
    if runtime_config.loss_scale in {None, "dynamic"}:
        raise errors.ConfigError(
            f"runtime.loss_scale: got {runtime_config.loss_scale!r} with float16 and {_FIELD}. A "
            "dynamic scale skips steps depending on single examples, which the noise does not "
            "hide. Give a fixed number, or use bfloat16."
        )


def _get_loss_scale(optimizer: keras.optimizers.Optimizer) -> float:
    """Returns the fixed factor by which the optimizer divides gradients, 1 for none."""
    scaling = optimizer_wrapper.find_wrapper(optimizer, keras.optimizers.LossScaleOptimizer)
    if not isinstance(scaling, loss_scaling.FixedLossScaleOptimizer | None):
        raise errors.ConfigError(
            f"optimizer: got {optimizer!r}, which scales the loss dynamically, with {_FIELD}. Use "
            "a fixed loss scale, or bfloat16."
        )
    with tf.init_scope():
        return float(optimizer.scale_loss(tf.ones([])))


def _sum_over_replicas(value: tf.Tensor) -> tf.Tensor:
    context = tf.distribute.get_replica_context()
    if context.num_replicas_in_sync == 1:
        return value
    return context.all_reduce(tf.distribute.ReduceOp.SUM, value)
