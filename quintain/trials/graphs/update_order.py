"""Control dependencies by which a step's metrics are measured before its updates.

In graphs of TensorFlow 1 nothing orders a read of a variable that is measured and the update of the
same variable by the optimizer, so that what is measured is left to chance.
"""

from collections.abc import Iterable
from typing import Final

import tensorflow as tf

_CHANGES: Final = ("ResourceApply", "ResourceSparseApply", "ResourceScatter", "Assign")
_OLDER_CHANGES: Final = ("Apply", "SparseApply", "Scatter")


def measure_before_updates(measured: Iterable[tf.Tensor], train_op: tf.Operation) -> None:
    """Lets all updates of variables that a training step makes wait for what is measured.

    Updates on which a measured value depends itself are left as they are.
    """
    sources = [tensor.op for tensor in measured]
    before = _ancestors(sources)
    for op in _ancestors([train_op.op if isinstance(train_op, tf.Tensor) else train_op]):
        if op not in before and op.type.startswith((*_CHANGES, *_OLDER_CHANGES)):
            op._add_control_inputs(sources)


def _ancestors(ops: Iterable[tf.Operation]) -> set[tf.Operation]:
    """Returns operations with all that they depend on."""
    found: set[tf.Operation] = set()
    waiting = list(ops)
    while waiting:
        op = waiting.pop()
        if op not in found:
            found.add(op)
            waiting += [tensor.op for tensor in op.inputs]
            waiting += op.control_inputs
    return found
