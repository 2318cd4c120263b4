"""Ending a loop inside a graph when the data ends, with no step half done.

`next(iterator)` in a graph raises `OutOfRangeError` at the end of the data. By then the executor
may have run every op of that step that does not need the data: the step counter and the state of
random seeds are one too far. Here the element is taken as an optional, and the step is skipped as a
whole if there is none.
"""

from collections.abc import Callable
from typing import Any

import tensorflow as tf


class PreloadedIterator:
    """An iterator whose next element was taken already. Anything else comes from the iterator."""

    def __init__(self, iterator: Any, element: Any) -> None:
        """Stores the element and where it came from."""
        self._iterator = iterator
        self._elements = [element]

    def __iter__(self) -> "PreloadedIterator":
        return self

    def __next__(self) -> Any:
        return self._elements.pop() if self._elements else next(self._iterator)

    def get_next(self) -> Any:
        """Does what `next` does."""
        return next(self)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._iterator, name)


def may_end(dataset: Any) -> bool:
    """Returns whether `skip_step_without_data` is of use for a dataset.

    Args:
        dataset: A nested structure of datasets or distributed datasets.

    Returns:
        False if the data is known to be endless, and for several datasets: a step may choose among
        their iterators, so that none can be read ahead of it.
    """
    leaves = tf.nest.flatten(dataset)
    if len(leaves) != 1:
        return False
    cardinality = leaves[0].cardinality
    if callable(cardinality):
        cardinality = cardinality()
    return bool(cardinality != tf.data.INFINITE_CARDINALITY)


def skip_step_without_data(step_fn: Callable[[Any], Any]) -> Callable[[Any], tf.Tensor]:
    """Wraps a step, for use inside of a `tf.function`.

    Args:
        step_fn: Takes an iterator, and always takes at least one element of it.

    Returns:
        A function of the iterator that runs the step if there is an element, and returns whether
        there was one, `[]` bool.
    """

    def guarded_step_fn(iterator: Any) -> tf.Tensor:
        optional = iterator.get_next_as_optional()
        has_data = optional.has_value()
        if has_data:
            step_fn(PreloadedIterator(iterator, optional.get_value()))
        return has_data

    return guarded_step_fn
