"""Data of Keras trials: batches of any kind, and the position in them."""

import itertools
import logging
import pathlib
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

import keras
import numpy as np
import tensorflow as tf

from quintain import errors
from quintain.files import literal_paths
from quintain.input.diagnosis import data_faults, pipeline_inspection
from quintain.orbit import iterators
from quintain.trials import trial_context
from quintain.trials.older import pedl_data

_MOST_GENERATED: Final = 100_000

logger = logging.getLogger(__name__)


class TrainingData:
    """Batches without end, whose position can be kept."""

    def __init__(self, batches: Any) -> None:
        self.batches = batches
        """One pass through the data."""
        self.position = 0
        """Batches read so far."""
        self.iterator: Any = None
        """The iterator of a dataset, or None where batches are made by Python."""
        self._is_saved = False
        if isinstance(self.batches, tf.data.Dataset):
            inspection = pipeline_inspection.inspect(self.batches.repeat())
            inspection.warn()
            self._is_saved = inspection.is_saved
            cardinality = int(self.batches.cardinality())
            self.length = cardinality if cardinality > 0 else None
            if cardinality == 0:
                raise errors.TrialError("build_training_data_loader() gave no data.")
            self.iterator = iterators.create(self.batches.repeat())
        else:
            self.length = len(self.batches)

    @property
    def element_spec(self) -> Any:
        """Shapes and types of a batch."""
        if self.iterator is not None:
            return self.batches.element_spec
        batch = to_tensors(self.batches[0])
        return tf.nest.map_structure(
            lambda part: tf.TensorSpec([None, *part.shape[1:]], part.dtype), batch
        )

    def next_batch(self) -> Any:
        """Returns the next batch."""
        if self.iterator is not None:
            batch = next(self.iterator)
        else:
            number = self.position % self.length if self.length else 0
            batch = to_tensors(self.batches[number])
            if number + 1 == self.length:
                self.batches.on_epoch_end()
        self.position += 1
        return batch

    def save(self, folder: pathlib.Path) -> None:
        """Writes the position in a dataset."""
        if self.iterator is None or not self._is_saved:
            return
        try:
            tf.train.Checkpoint(iterator=self.iterator).write(str(folder / "data"))
        except (tf.errors.OpError, ValueError) as error:
            self._is_saved = False
            logger.warning(
                "The position in the training data can't be saved (%s); going on from a "
                "checkpoint reads past the batches that were used.",
                str(error).splitlines()[0],
            )

    def restore(self, folder: pathlib.Path, position: int) -> None:
        """Goes to where `save` was called."""
        if self.iterator is None:
            for number in range(self.position, position):
                if self.length and (number + 1) % self.length == 0:
                    self.batches.on_epoch_end()
            self.position = position
            return
        if (folder / "data.index").exists():
            tf.train.Checkpoint(iterator=self.iterator).read(
                literal_paths.checkpoint(folder / "data")
            ).assert_consumed()
        else:
            for _ in range(position):
                next(self.iterator)
        self.position = position


def as_batches(
    data: Any, find_batch_size: Callable[[], int], context: trial_context.TrialContext, use: str
) -> Any:
    """Returns data as a dataset or a `PyDataset`.

    Args:
        data: What the user's code made.
        find_batch_size: Returns the size of batches, of data that are not batches.
        context: What is known of the trial.
        use: `training` or `validation`.

    Raises:
        TrialError: If they are neither, nor arrays, nor anything that makes batches.
    """
    if isinstance(data, pedl_data.KerasDataAdapter):
        data = data.sequence
    if isinstance(data, tf.data.Dataset):
        return _check_dataset(data, use, context.validation_steps)
    if isinstance(data, keras.utils.PyDataset):
        return data
    if hasattr(data, "get_batch") and hasattr(data, "__len__"):
        return pedl_data.LoadedBatches(data, find_batch_size())
    if isinstance(data, Iterator):
        return _read_generator(data, use, context.validation_steps)
    is_sequence = hasattr(data, "__getitem__") and hasattr(data, "__len__")
    if is_sequence and not isinstance(data, tuple | list | Mapping | np.ndarray | str):
        return _Sequence(data)
    if isinstance(data, tuple | list) and len(data) in (2, 3):
        parts = tuple(_as_arrays(part) for part in data)
        if all(hasattr(part, "shape") for part in tf.nest.flatten(parts)):
            dataset = tf.data.Dataset.from_tensor_slices(parts)
            if use == "training":
                count = int(tf.nest.flatten(parts)[0].shape[0])
                dataset = dataset.shuffle(count, seed=context.get_trial_seed())
            return dataset.batch(find_batch_size())
    raise errors.TrialError(
        f"The {use} data are {type(data).__name__}, expected a batched tf.data.Dataset, a "
        "keras.utils.PyDataset, a generator of batches, or a tuple of arrays (x, y)."
    )


def _check_dataset(data: tf.data.Dataset, use: str, most: int | None) -> tf.data.Dataset:
    """Returns a dataset; of that of a validation no more than so many batches."""
    _require_batches(data, use)
    if use == "validation":
        data = data if most is None else data.take(most)
        if int(data.cardinality()) == tf.data.INFINITE_CARDINALITY:
            raise errors.TrialError(
                "build_validation_data_loader(): the dataset never ends, expected one pass; leave "
                ".repeat() out."
            )
    data_faults.check_files(data)
    return data


def _as_arrays(part: Any) -> Any:
    """Returns arrays of several inputs as a tuple, which datasets keep apart."""
    if isinstance(part, list) and part and all(hasattr(each, "shape") for each in part):
        return tuple(part)
    return np.asarray(part) if isinstance(part, list) else part


def _read_generator(batches: Iterator[Any], use: str, most: int | None) -> Any:
    """Returns the batches of a generator, which can be read only once.

    Those of a validation are kept. Those of the training have to go on without end.
    """
    if use == "validation":
        limit = most or _MOST_GENERATED
        kept = list(itertools.islice(batches, limit + 1))[: most or None]
        if len(kept) > limit:
            raise errors.TrialError(
                f"The generator of validation data gave more than {limit:,} batches, expected one "
                "pass that ends; or set context.configure_fit(validation_steps=...)."
            )
        return _Sequence(kept)
    try:
        first = to_tensors(next(batches))
    except StopIteration:
        raise errors.TrialError("The generator of training data gave nothing.") from None
    spec = tf.nest.map_structure(
        lambda part: tf.TensorSpec([None, *part.shape[1:]] if part.shape.rank else [], part.dtype),
        first,
    )
    dataset = tf.data.Dataset.from_generator(
        lambda: itertools.chain([first], map(to_tensors, batches)), output_signature=spec
    )
    _require_batches(dataset, use)
    return dataset


class _Sequence(keras.utils.PyDataset):
    """Batches of what is a sequence, but none of this Keras."""

    def __init__(self, batches: Any) -> None:
        super().__init__()
        self._batches = batches

    def __len__(self) -> int:
        return len(self._batches)

    def __getitem__(self, index: int) -> Any:
        return self._batches[index]

    def on_epoch_end(self) -> None:
        if hasattr(self._batches, "on_epoch_end"):
            self._batches.on_epoch_end()


def to_tensors(batch: Any) -> Any:
    """Returns a batch of arrays as tensors."""
    batch = tuple(batch) if isinstance(batch, list) else batch
    return tf.nest.map_structure(tf.convert_to_tensor, batch)


def iterate(data: Any) -> Iterator[Any]:
    """Yields the batches of one pass, as tensors."""
    if isinstance(data, tf.data.Dataset):
        yield from iterators.create(data)
        return
    for number in range(len(data)):
        yield to_tensors(data[number])
    data.on_epoch_end()


def count_inputs(batch: Any) -> int:
    """Returns the number of examples of a batch of tensors."""
    return int(tf.nest.flatten(batch)[0].shape[0])


def count_in_graph(batch: Any) -> tf.Tensor:
    """Returns the number of examples of a batch, as a scalar int32 tensor of the graph."""
    first = tf.nest.flatten(batch)[0]
    return first.nrows(tf.int32) if isinstance(first, tf.RaggedTensor) else tf.shape(first)[0]


def _require_batches(data: tf.data.Dataset, use: str) -> None:
    for part in tf.nest.flatten(data.element_spec):
        if isinstance(part, tf.TensorSpec) and part.shape.rank == 0:
            raise errors.TrialError(
                f"build_{use}_data_loader(): the dataset has elements {data.element_spec}, "
                "expected batches; call .batch(...) on it."
            )
