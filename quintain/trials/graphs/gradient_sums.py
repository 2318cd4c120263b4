"""Gradient aggregation in graphs: `optimizations.aggregation_frequency`."""

from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from quintain import errors
from quintain.trials import trial_context

v1 = tf.compat.v1

_Optimizer: Any = v1.train.Optimizer


class SummingOptimizer(_Optimizer):
    """Adds up the gradients of some batches, and lets another optimizer apply them.

    The global step counts batches, not updates.
    """

    def __init__(self, optimizer: Any, num_batches: int, *, is_mean: bool) -> None:
        super().__init__(use_locking=False, name=f"Summing{type(optimizer).__name__}")
        self._optimizer = optimizer
        self._num_batches = num_batches
        self._is_mean = is_mean

    def compute_gradients(self, *args: Any, **kwargs: Any) -> Any:
        """Returns the gradients of one batch."""
        return self._optimizer.compute_gradients(*args, **kwargs)

    def apply_gradients(
        self, grads_and_vars: Sequence[Any], global_step: Any = None, name: str | None = None
    ) -> Any:
        """Returns the operation that adds the gradients, and updates when it is time."""
        pairs = [(grad, variable) for grad, variable in grads_and_vars if grad is not None]
        count = _make_variable("gradient_count", tf.zeros([], tf.int64))
        sums = [
            _make_variable(f"{variable.op.name}/gradient_sum", tf.zeros(variable.shape, grad.dtype))
            for grad, variable in pairs
        ]
        added = [
            total.assign_add(tf.convert_to_tensor(grad), read_value=False)
            for total, (grad, _) in zip(sums, pairs, strict=True)
        ]

        def update() -> Any:
            divisor = self._num_batches if self._is_mean else 1
            means = [total.read_value() / divisor for total in sums]
            variables = [variable for _, variable in pairs]
            applied = self._optimizer.apply_gradients(zip(means, variables, strict=True))
            with tf.control_dependencies([applied]):
                zeros = [total.assign(tf.zeros_like(total), read_value=False) for total in sums]
                return tf.group(*zeros, count.assign(0, read_value=False))

        with tf.control_dependencies([*added]):
            counted = count.assign_add(1, read_value=True)
        with tf.control_dependencies([counted]):
            updated = v1.cond(counted >= self._num_batches, update, tf.no_op)
        with tf.control_dependencies([updated]):
            return tf.no_op(name) if global_step is None else global_step.assign_add(1).op

    def get_slot(self, var: Any, name: str) -> Any:
        """Returns a slot of the other optimizer."""
        return self._optimizer.get_slot(var, name)

    def get_slot_names(self) -> list[str]:
        """Returns the names of its slots."""
        return self._optimizer.get_slot_names()

    def variables(self) -> list[Any]:
        """Returns its variables."""
        return self._optimizer.variables()


def wrap(optimizer: Any, context: trial_context.TrialContext) -> Any:
    """Returns an optimizer that updates as the config's part `optimizations` says.

    Raises:
        TrialError: If gradients are to be added up by something that is no optimizer of a graph.
    """
    num_batches = context.get_optimization("aggregation_frequency") or 1
    if num_batches == 1 or isinstance(optimizer, SummingOptimizer):
        return optimizer
    if not isinstance(optimizer, _Optimizer):
        raise errors.TrialError(
            f"optimizations.aggregation_frequency: got {num_batches} with the optimizer "
            f"{optimizer!r}, expected a tf.compat.v1.train.Optimizer, such as "
            "tf.train.AdamOptimizer(0.001)."
        )
    is_mean = context.get_optimization("average_aggregated_gradients")
    return SummingOptimizer(optimizer, num_batches, is_mean=is_mean is not False)


def refuse_mixed_precision(context: trial_context.TrialContext) -> None:
    """Checks that a graph is not to be computed in half precision.

    Raises:
        TrialError: If it is.
    """
    level = context.get_optimization("mixed_precision") or "O0"
    if level != "O0":
        raise errors.TrialError(
            f"optimizations.mixed_precision: got {level!r}; graphs compute in the types that they "
            "are built of. A KerasTrial has mixed precision."
        )


def _make_variable(name: str, value: Any) -> Any:
    """Returns a variable that is saved with the others and not trained."""
    return v1.Variable(value, trainable=False, name=name, use_resource=True)
