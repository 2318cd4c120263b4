"""End of a loop inside a graph when the data ends, with no step half done.

`next(iterator)` in a graph raises `OutOfRangeError` at the end of the data. By then the executor
may have run every op of that step that does not need the data: the step counter and the state of
random seeds are one too far. Here the element is taken as an optional, and the step is skipped as a
whole if there is none.
"""

from collections.abc import Callable
from typing import Any, Final

import tensorflow as tf

from quintain import errors
from quintain.orbit import cluster

TakeFn = Callable[[Callable[[], Any]], Any]
"""Calls a function that takes elements and returns what it returns, to measure it for instance."""


NO_DATA: Final = (
    "The training dataset is empty: it ended before the first step. Check its input path, and that "
    "no filter drops everything; with `drop_remainder=True` a batch needs `global_batch_size` "
    "examples."
)
"""Message of a training that finds no data."""


class PreloadedIterator:
    """An iterator whose next elements were taken already. Anything else comes from the iterator."""

    def __init__(self, iterator: Any, *elements: Any) -> None:
        self._iterator = iterator
        self._elements = list(reversed(elements))

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
    return not (tf.nest.is_nested(dataset) or is_endless(dataset))


def is_endless(dataset: Any) -> bool:
    """Returns whether a dataset, or a distributed one, is known to have no end."""
    cardinality = dataset.cardinality
    if callable(cardinality):
        cardinality = cardinality()
    return bool(cardinality == tf.data.INFINITE_CARDINALITY)


def skip_step_without_data(
    step_fn: Callable[[Any], Any], num_elements: int = 1, take: TakeFn | None = None
) -> Callable[[Any], tf.Tensor]:
    """Wraps a step, for use inside of a `tf.function`.

    Args:
        step_fn: Takes an iterator, and always takes at least `num_elements` elements of it.
        num_elements: Elements that must be there for the step to run.
        take: Calls what takes the elements; None calls it and nothing else.

    Returns:
        A function of the iterator that runs the step if there are so many elements, and returns
        whether there were, `[]` bool. Fewer elements at the end of the data are dropped.
    """

    def guarded_step_fn(iterator: Any) -> tf.Tensor:
        def take_elements() -> list[tf.experimental.Optional]:
            return [iterator.get_next_as_optional() for _ in range(num_elements)]

        optionals = take_elements() if take is None else take(take_elements)
        # The last one has a value only if all have one.
        has_data = optionals[-1].has_value()

        def run_step() -> int:
            step_fn(PreloadedIterator(iterator, *(part.get_value() for part in optionals)))
            return 0  # A condition has to return something.

        tf.cond(has_data, run_step, lambda: 0)  # Written out: it need not be converted.
        return has_data

    return guarded_step_fn


def needs_agreement() -> bool:
    """Returns True if several replicas must end at the same step.

    A step of theirs sums over the replicas, which TensorFlow can't do inside of a condition.
    """
    return bool(tf.distribute.get_strategy().num_replicas_in_sync > 1)


def take_if(
    iterator: Any, condition: tf.Tensor, num_elements: int = 1
) -> list[tf.experimental.Optional]:
    """Returns the next elements of an iterator, if `condition` holds and as far as there are any.

    Args:
        iterator: Where they come from.
        condition: `[]` bool. If False, nothing is taken, and none of the optionals has a value.
        num_elements: Elements to take.
    """
    empty = tf.experimental.Optional.empty(iterator.element_spec)
    return [
        tf.cond(condition, iterator.get_next_as_optional, lambda: empty)
        for _ in range(num_elements)
    ]


def have_all(optionals: list[tf.experimental.Optional]) -> tf.Tensor:
    """Returns whether all workers have all elements, `[]` bool; a collective of all workers."""
    is_out = tf.logical_not(optionals[-1].has_value())
    return tf.logical_not(cluster.any_worker(tf.distribute.get_strategy(), is_out))


def preload(iterator: Any, optionals: list[tf.experimental.Optional]) -> PreloadedIterator:
    """Returns an iterator that gives the elements in `optionals` first."""
    return PreloadedIterator(iterator, *(part.get_value() for part in optionals))


def next_of_any_worker(iterator: Any, spec: Any) -> Any:
    """Returns this worker's next element, for evaluation from Python.

    A worker that is out of data before the others gets an element without examples, so that all
    workers do the same number of steps.

    Raises:
        StopIteration: If all workers are out of data.
    """
    strategy = tf.distribute.get_strategy()
    if cluster.num_workers(strategy) == 1 or not isinstance(iterator, tf.data.Iterator):
        return next(iterator)  # Distributed iterators of TensorFlow agree by themselves.
    optional = iterator.get_next_as_optional()
    has_value = bool(optional.has_value())
    if not bool(cluster.any_worker(strategy, has_value)):
        raise StopIteration
    return optional.get_value() if has_value else tf.nest.map_structure(_without_examples, spec)


def compile_step(
    step_fn: Callable[[Any], Any], dataset: Any, iterator: Any, *, autograph: bool
) -> Callable[[Any], Any]:
    """Returns a step of an evaluation as a graph that is not started when no element is left.

    A graph that finds the end of the data itself has by then run what does not need the data, such
    as the count of a mean. For several datasets that can't be helped.
    """
    if tf.nest.is_nested(dataset):
        return tf.function(step_fn, autograph=autograph)

    @tf.function(input_signature=[iterator._type_spec, dataset.element_spec], autograph=autograph)
    def compiled(iterator: Any, element: Any) -> Any:
        # A copy: a step may take parts out of its batch, but not out of a graph's argument.
        batch = tf.nest.map_structure(lambda part: part, element)
        return step_fn(PreloadedIterator(iterator, batch))

    return lambda iterator: compiled(iterator, next_of_any_worker(iterator, dataset.element_spec))


def _without_examples(spec: Any) -> Any:
    """Returns the batch of 0 examples that a spec describes."""
    if isinstance(spec, tf.TensorSpec):
        return tf.zeros([0, *(size or 0 for size in spec.shape[1:])], spec.dtype)
    if isinstance(spec, tf.RaggedTensorSpec):
        rows = tf.TensorShape(spec.shape)[1:]
        values = tf.zeros([0, *(size or 0 for size in rows[spec.ragged_rank :])], spec.dtype)
        splits = [tf.zeros([1], spec.row_splits_dtype) for _ in range(spec.ragged_rank)]
        return tf.RaggedTensor.from_nested_row_splits(values, splits)
    raise errors.DataError(
        f"An evaluation by several workers gives a batch of {spec!r}, of which an empty one can't "
        "be made. Use dense or ragged tensors, or pad the data so that all workers get as many "
        "batches."
    )
