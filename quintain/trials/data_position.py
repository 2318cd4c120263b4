"""When the state of a dataset's iterator says exactly where it is."""

from typing import Any


def is_saved_exactly(dataset: Any) -> bool:
    """Returns whether a saved iterator of the repeated dataset goes on as the original does.

    TensorFlow 2.21 loses how often a dataset was shuffled if the iterator is saved when the last,
    smaller batch of an epoch was read, or elements behind the end of the epoch were prefetched: the
    next epochs come in another order then. Trials read such data again from the beginning, up to
    where they were.

    Args:
        dataset: A `tf.data.Dataset`, not repeated.
    """
    inner = getattr(dataset, "_dataset", None)
    if inner is not None:  # what TensorFlow 1 wraps around a dataset
        return is_saved_exactly(inner)
    if "Shuffle" in type(dataset).__name__:
        return False
    return all(is_saved_exactly(part) for part in dataset._inputs())
