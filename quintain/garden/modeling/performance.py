"""Mixed precision: the policy of models, and the loss scale that float16 needs."""

import logging
from typing import Any

import keras
import tensorflow as tf

from quintain.optimization import loss_scaling

_POLICIES = {tf.float16: "mixed_float16", tf.bfloat16: "mixed_bfloat16", tf.float32: "float32"}

logger = logging.getLogger(__name__)


def set_mixed_precision_policy(dtype: Any, loss_scale: None = None) -> None:
    """Makes Keras compute in `dtype` in all models that are built from now on.

    Variables stay float32.

    Args:
        dtype: `float16`, `bfloat16` or `float32`, by name or as a TensorFlow type.
        loss_scale: Not used; must be None. See `configure_optimizer`.

    Raises:
        ValueError: If `dtype` is another one, or `loss_scale` is given.
    """
    if loss_scale is not None:
        raise ValueError(
            f"loss_scale: got {loss_scale!r}, expected None. Pass it to `configure_optimizer`."
        )
    policy = next((name for known, name in _POLICIES.items() if dtype == known), None)
    if policy is None:
        raise ValueError(f"dtype: got {dtype!r}, expected float16, bfloat16 or float32.")
    keras.config.set_dtype_policy(policy)


def configure_optimizer(
    optimizer: keras.optimizers.Optimizer,
    use_float16: bool = False,
    loss_scale: str | float | None = None,
    use_graph_rewrite: bool | None = None,
) -> keras.optimizers.Optimizer:
    """Makes an optimizer scale the loss, so that small gradients do not vanish in float16.

    Args:
        optimizer: The optimizer.
        use_float16: Whether the model computes in float16. If not, nothing is done.
        loss_scale: The factor, or `dynamic` or None to adapt it during training.
        use_graph_rewrite: Not used; rewriting of graphs is no longer part of TensorFlow.

    Returns:
        `optimizer`, or a `LossScaleOptimizer` around it.

    Raises:
        ValueError: If `loss_scale` is neither a positive number nor `dynamic`.
    """
    if use_graph_rewrite is not None:
        logger.warning("`use_graph_rewrite` has no effect; leave it out.")
    if not use_float16:
        return optimizer
    return loss_scaling.scale_loss(optimizer, loss_scale)
