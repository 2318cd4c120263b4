"""Dataset iterators whose destruction does not block.

The thread in which tf.data tunes a pipeline sleeps for longer and longer, up to a minute.
TensorFlow 2.21 wakes it before it says that the iterator is gone, so that it may fall asleep again,
and what drops the iterator waits for it, with an idle processor: an evaluation, a recovery, the end
of a run. Here another thread waits. Commands and trials end without it (`process_end.leave`), other
programs at the latest when it has finished.
"""

import atexit
import contextlib
import functools
import queue
import sys
import threading
import weakref
from collections.abc import Iterator
from typing import Any, Final

import tensorflow as tf

# The list, the variable of the loop, and the argument of `getrefcount`.
_OWN_REFERENCES: Final = 3
_CHECK_SECS: Final = 1.0


def create(dataset: Any) -> Any:
    """Returns an iterator over a dataset; it may be dropped at any time and place.

    Use it in place of `iter` for every `tf.data.Dataset` and every distributed one.

    Args:
        dataset: The dataset, or anything else that `iter` takes.

    Example:
        >>> [int(number) for number in create(tf.data.Dataset.range(3))]
        [0, 1, 2]
    """
    iterator = iter(dataset)
    if isinstance(iterator, tf.data.Iterator | tf.distribute.DistributedIterator):
        _get_retirement().watch(iterator)
    return iterator


def create_numpy(dataset: tf.data.Dataset) -> Iterator[Any]:
    """Returns what `dataset.as_numpy_iterator()` does for tensors; it may be dropped as well."""
    to_numpy = functools.partial(tf.nest.map_structure, lambda tensor: tensor.numpy())
    return map(to_numpy, create(dataset))


@functools.cache
def _get_retirement() -> "_Retirement":
    retirement = _Retirement()
    # What tf.data computes ahead must stop before TensorFlow's own data go.
    atexit.register(retirement.forget)
    # No daemons: Python's end would end them within C++, and that ends in a crash.
    for work in (retirement.run, retirement.end_with_main):
        threading.Thread(target=work, name="retired_iterators").start()
    return retirement


class _Retirement:
    """Holds the native parts of iterators, and has them destroyed after the iterators are gone."""

    def __init__(self) -> None:
        self._watched: dict[int, tuple[weakref.ref[Any], list[tf.Tensor]]] = {}
        self._gone: queue.SimpleQueue[weakref.ref[Any] | None] = queue.SimpleQueue()

    def watch(self, iterator: Any) -> None:
        """Keeps the resources of an iterator until it is gone."""
        resources = tf.nest.flatten(iterator, expand_composites=True)
        reference = weakref.ref(iterator, self._gone.put)
        self._watched[id(reference)] = (reference, resources)

    def forget(self) -> None:
        """Lets go of all iterators: what refers to them now destroys them, when it is gone."""
        self._watched.clear()

    def end_with_main(self) -> None:
        """Waits for the end of the main thread: what begins after it, nobody waits for."""
        threading.main_thread().join()
        self._gone.put(None)

    def run(self) -> None:
        """Has destroyed what nobody else refers to, until the main thread ends."""
        retired: list[list[tf.Tensor]] = []
        is_over = False
        while not is_over:
            with contextlib.suppress(queue.Empty):
                reference = self._gone.get(timeout=_CHECK_SECS if retired else None)
                is_over = reference is None
                if id(reference) in self._watched:
                    retired.append(self._watched.pop(id(reference))[1])
            # The garbage collector tells of an iterator before it has let go of its parts.
            free = [parts for parts in retired if _is_only_owner(parts)]
            retired = [parts for parts in retired if not any(parts is one for one in free)]
            # One thread for each, so that they sleep at the same time.
            for parts in free:
                threading.Thread(target=parts.clear, name="destroyed_iterators").start()


def _is_only_owner(parts: list[tf.Tensor]) -> bool:
    return all(sys.getrefcount(part) <= _OWN_REFERENCES for part in parts)
