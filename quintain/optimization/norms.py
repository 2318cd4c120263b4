"""Norms of gradients and updates, summed up over the steps of a training loop."""

import contextlib
from collections.abc import Iterator, Sequence
from typing import Any

import tensorflow as tf

from quintain.kernels import selection


class NormSums:
    """Sums of L2 norms over updates. No part of checkpoints: they are 0 between two loops."""

    def __init__(self) -> None:
        """Creates the sums, in the scope of the strategy."""
        self._gradient_norm = _create_sum("gradient_norm")
        self._update_norm = _create_sum("update_norm")
        self._count = _create_sum("num_norms")

    def add(self, gradient_norm: tf.Tensor, update_norm: tf.Tensor) -> None:
        """Adds the norms of one update, on every replica; all have the same."""
        self._gradient_norm.assign_add(gradient_norm)
        self._update_norm.assign_add(update_norm)
        self._count.assign_add(1.0)

    def take_means(self) -> dict[str, float]:
        """Returns `gradient_norm` and `update_norm` as means over the updates, and starts anew.

        Returns:
            The means; empty if there was no update.
        """
        count = float(self._count.numpy())
        sums = {"gradient_norm": self._gradient_norm, "update_norm": self._update_norm}
        means = (
            {name: float(total.numpy()) / count for name, total in sums.items()} if count else {}
        )
        for variable in (*sums.values(), self._count):
            variable.assign(0.0)
        return means


@contextlib.contextmanager
def update_norms_added(
    sums: NormSums | None, gradients: Sequence[Any], variables: Sequence[Any]
) -> Iterator[None]:
    """Adds the norms of gradients and of the change of the variables inside, if there are sums."""
    if sums is None:
        yield
        return
    before = [tf.identity(tf.convert_to_tensor(variable)) for variable in variables]
    yield
    changes = [
        tf.convert_to_tensor(variable) - former
        for variable, former in zip(variables, before, strict=True)
    ]
    sums.add(*(tf.cast(global_norm(parts), tf.float32) for parts in (gradients, changes)))


def global_norm(parts: Sequence[Any]) -> tf.Tensor:
    """Returns the common L2 norm of dense tensors, `[]` float32, or float64 if one of them is."""
    if selection.is_native() and all(part.dtype in {tf.float32, tf.bfloat16} for part in parts):
        from quintain.kernels import adam  # noqa: PLC0415 - only native steps do

        return tf.sqrt(2.0 * adam.sum_half_squares(parts))
    dtype = tf.float64 if any(part.dtype == tf.float64 for part in parts) else tf.float32
    # `l2_loss` is half the sum of squares, in one kernel.
    return tf.sqrt(2.0 * tf.add_n([tf.cast(tf.nn.l2_loss(part), dtype) for part in parts]))


def _create_sum(name: str) -> tf.Variable:
    return tf.Variable(
        0.0,
        trainable=False,
        name=name,
        synchronization=tf.VariableSynchronization.ON_READ,
        aggregation=tf.VariableAggregation.ONLY_FIRST_REPLICA,
    )
