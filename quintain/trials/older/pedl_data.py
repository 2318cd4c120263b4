"""Data classes of Keras trials under the names of PEDL's versions."""

from collections.abc import Mapping
from typing import Any

import keras
import numpy as np

ArrayLike = Any
InputData = Any


class KerasDataAdapter:
    """A sequence of batches, with what Keras 2 needed to read it with several processes.

    Attributes:
        sequence: The batches; they are read in the process of the trial.
    """

    def __init__(
        self,
        sequence: keras.utils.PyDataset,
        use_multiprocessing: bool = False,
        workers: int = 1,
        max_queue_size: int = 10,
    ) -> None:
        """Takes the other arguments of Keras 2, too; they have no effect."""
        del use_multiprocessing, workers, max_queue_size
        self.sequence = sequence


SequenceAdapter = KerasDataAdapter


def adapt_keras_data(
    x: Any, y: Any = None, sample_weight: Any = None, batch_size: int | None = None, **others: Any
) -> Any:
    """Returns data as a sequence of batches, or as they are if they are one."""
    del others
    if y is None:
        return x
    return InMemorySequence(x, y, batch_size or 32, sample_weight)


class InMemorySequence(keras.utils.PyDataset):
    """Arrays, cut into batches in their order.

    Args:
        data: Array, or a list or dict of arrays, with a row for each example.
        labels: Such arrays.
        batch_size: Examples of a batch; the last one may have fewer.
        sample_weight: Weights of the examples, if they have any.
    """

    def __init__(
        self,
        data: Any,
        labels: Any,
        batch_size: int,
        sample_weight: Any = None,
        drop_leftovers: bool = False,
    ) -> None:
        super().__init__()
        self._parts = [data, labels] if sample_weight is None else [data, labels, sample_weight]
        self._batch_size = batch_size
        count = len(keras.tree.flatten(data)[0])
        self._length = count // batch_size if drop_leftovers else -(-count // batch_size)

    def __len__(self) -> int:
        return self._length

    def __getitem__(self, index: int) -> tuple[Any, ...]:
        if not 0 <= index < self._length:
            raise IndexError(f"got {index}, expected less than {self._length}.")
        rows = slice(index * self._batch_size, (index + 1) * self._batch_size)
        return tuple(
            keras.tree.map_structure(lambda array: np.asarray(array)[rows], part)
            for part in self._parts
        )


class Batch:
    """Examples of one batch: arrays of data and of labels, by name.

    Attributes:
        data: Arrays, or one array.
        labels: Arrays, or one array.
    """

    def __init__(self, data: Any, labels: Any) -> None:
        self.data = data
        self.labels = labels

    def __len__(self) -> int:
        return len(keras.tree.flatten(self.data)[0])


class BatchLoader:
    """Examples of which any range can be read. Subclasses have both methods."""

    def __len__(self) -> int:
        raise NotImplementedError

    def get_batch(self, start: int, end: int) -> Batch:
        """Returns the examples from `start` to `end`, without the latter."""
        raise NotImplementedError


class ArrayBatchLoader(BatchLoader):
    """Examples of arrays."""

    def __init__(self, data: Any, labels: Any) -> None:
        self._data, self._labels = data, labels

    def __len__(self) -> int:
        return len(keras.tree.flatten(self._data)[0])

    def get_batch(self, start: int, end: int) -> Batch:
        """Returns the examples from `start` to `end`, without the latter."""
        cut = [
            keras.tree.map_structure(lambda array: np.asarray(array)[start:end], part)
            for part in (self._data, self._labels)
        ]
        return Batch(*cut)


class LoadedBatches(keras.utils.PyDataset):
    """The batches of a loader of which ranges can be read."""

    def __init__(self, loader: Any, batch_size: int) -> None:
        super().__init__()
        self._loader, self._batch_size = loader, batch_size

    def __len__(self) -> int:
        return -(-len(self._loader) // self._batch_size)

    def __getitem__(self, index: int) -> tuple[Any, Any]:
        start = index * self._batch_size
        batch = self._loader.get_batch(start, min(start + self._batch_size, len(self._loader)))
        return _unwrap(batch.data), _unwrap(batch.labels)


def _unwrap(arrays: Any) -> Any:
    """Returns the array of data with one name, which is only a word for the one input or output."""
    is_single = isinstance(arrays, Mapping) and len(arrays) == 1
    return next(iter(arrays.values())) if is_single else arrays
