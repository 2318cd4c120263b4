"""Metric reducers: validation metrics of estimators that Python computes from all batches."""

import abc
from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow as tf

v1 = tf.compat.v1


class MetricReducer(abc.ABC):
    """A metric that is computed batch by batch.

    A trial has one process, so that `cross_slot_reduce` gets a list with one state.
    """

    @abc.abstractmethod
    def accumulate(self, metric: Any) -> Any:
        """Takes the value of a batch and returns the state after it."""

    @abc.abstractmethod
    def cross_slot_reduce(self, per_slot_metrics: list[Any]) -> Any:
        """Returns the metric for a list of the last states."""

    def reset(self) -> None:  # noqa: B027 - many have no state that outlives an evaluation
        """Forgets what it was given; called before each evaluation."""


class _ListReducer(MetricReducer):
    """Keeps all values for a function of their list."""

    def __init__(self, reduce: Callable[[list[Any]], Any]) -> None:
        self._reduce = reduce
        self._values: list[Any] = []

    def accumulate(self, metric: Any) -> list[Any]:
        self._values.append(metric)
        return self._values

    def cross_slot_reduce(self, per_slot_metrics: list[Any]) -> Any:
        return self._reduce(per_slot_metrics[0])

    def reset(self) -> None:
        self._values = []


def build(metric: Any, reducer: Any, numpy_dtype: Any) -> tuple[tf.Tensor, tf.Operation]:
    """Returns the value and the update operation of a metric for `eval_metric_ops`.

    Each evaluation builds its graph anew, and so begins anew.

    Args:
        metric: A tensor, a list of tensors, or a dict of them.
        reducer: A `MetricReducer`, or a function of the list of the values of all batches.
        numpy_dtype: The type of its result.
    """
    dtype = np.dtype(numpy_dtype)
    used = reducer if isinstance(reducer, MetricReducer) else _ListReducer(reducer)
    used.reset()
    state: list[Any] = [None]

    def update(*values: Any) -> None:
        state[0] = used.accumulate(tf.nest.pack_sequence_as(metric, values))

    def read() -> Any:
        return np.asarray(used.cross_slot_reduce(state), dtype)

    value = v1.py_func(read, [], tf.as_dtype(dtype))
    return value, v1.py_func(update, tf.nest.flatten(metric), [])
