"""Optimization step with an explicit sum of the gradients over the replicas.

An optimizer sums the gradients of all replicas itself. Here it is done before, so that functions of
one's own can change the gradients before and after.
"""

import logging
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import keras
import tensorflow as tf

from quintain.optimization import dense_gradients, fused_optimizer, optimizer_wrapper

GradientsAndVariables = Iterable[tuple[Any, Any]]
Callback = Callable[[GradientsAndVariables], GradientsAndVariables]

logger = logging.getLogger(__name__)


def minimize_using_explicit_allreduce(
    tape: tf.GradientTape,
    optimizer: keras.optimizers.Optimizer,
    loss: tf.Tensor,
    trainable_variables: Sequence[Any],
    pre_allreduce_callbacks: Sequence[Callback] | None = None,
    post_allreduce_callbacks: Sequence[Callback] | None = None,
    allreduce_bytes_per_pack: int = 0,
) -> None:
    """Does one step of an optimizer, in a replica context.

    Under a `LossScaleOptimizer`, gradients are summed in float16, which halves what is sent.

    Args:
        tape: Tape that recorded `loss`.
        optimizer: The optimizer. A loss that it wants to be scaled is scaled here.
        loss: Scalar loss of this replica, divided by the number of replicas.
        trainable_variables: Variables to update: those of Keras, or of TensorFlow.
        pre_allreduce_callbacks: Change this replica's own gradients, one after the other: take and
            return pairs of a gradient, or None, and its variable. Gradients are scaled as the loss.
        post_allreduce_callbacks: Change the sums, which are not scaled, in the same way.
        allreduce_bytes_per_pack: Bytes that are summed together. 0 sums all gradients at once.

    Raises:
        ValueError: If all gradients are None.
    """
    with tape:
        scaled_loss = optimizer.scale_loss(loss)
    sources = [
        variable.value if isinstance(variable, keras.Variable) else variable
        for variable in trainable_variables
    ]
    pairs: GradientsAndVariables = list(
        zip(tape.gradient(scaled_loss, sources), trainable_variables, strict=True)
    )
    for callback in pre_allreduce_callbacks or ():
        pairs = callback(pairs)
    gradients, variables = _drop_missing(pairs)
    scaling = optimizer_wrapper.find_wrapper(optimizer, keras.optimizers.LossScaleOptimizer)
    gradients = _sum_over_replicas(gradients, allreduce_bytes_per_pack, in_half=scaling is not None)
    if post_allreduce_callbacks:
        scale = optimizer.scale_loss(tf.ones([]))
        pairs = [
            (dense_gradients.multiply(gradient, 1.0 / scale), variable)
            for gradient, variable in zip(gradients, variables, strict=True)
        ]
        for callback in post_allreduce_callbacks:
            pairs = callback(pairs)
        gradients, variables = _drop_missing(pairs)
        gradients = [dense_gradients.multiply(gradient, scale) for gradient in gradients]
    _apply_sum(optimizer, gradients, variables)


def _drop_missing(pairs: GradientsAndVariables) -> tuple[list[Any], list[Any]]:
    pairs = list(pairs)
    missing = [
        fused_optimizer.get_path(variable) for gradient, variable in pairs if gradient is None
    ]
    if len(missing) == len(pairs):
        raise ValueError(f"No gradients provided for any variable: {missing}.")
    if missing:
        logger.warning("No gradient for %s: the loss does not depend on them.", missing)
    kept = [pair for pair in pairs if pair[0] is not None]
    return [gradient for gradient, _ in kept], [variable for _, variable in kept]


def _sum_over_replicas(gradients: list[Any], bytes_per_pack: int, *, in_half: bool) -> list[Any]:
    context = tf.distribute.get_replica_context()
    if in_half:
        gradients = [tf.cast(gradient, tf.float16) for gradient in gradients]
    if context.num_replicas_in_sync > 1:
        options = tf.distribute.experimental.CommunicationOptions(bytes_per_pack=bytes_per_pack)
        gradients = context.all_reduce(tf.distribute.ReduceOp.SUM, gradients, options=options)
    if in_half:
        gradients = [tf.cast(gradient, tf.float32) for gradient in gradients]
    return list(gradients)


def _apply_sum(optimizer: Any, gradients: list[Any], variables: list[Any]) -> None:
    """Updates this replica's variables by gradients that are summed already."""
    innermost = optimizer
    while getattr(innermost, "inner_optimizer", None) is not None:
        innermost = innermost.inner_optimizer
    if isinstance(innermost, fused_optimizer.FusedOptimizer):
        with fused_optimizer.gradients_are_summed():
            optimizer.apply_gradients(zip(gradients, variables, strict=True))
        return
    # An optimizer of Keras can't be told: it adds up equal shares.
    share = 1.0 / tf.distribute.get_strategy().num_replicas_in_sync
    gradients = [dense_gradients.multiply(gradient, tf.constant(share)) for gradient in gradients]
    optimizer.apply_gradients(zip(gradients, variables, strict=True))
