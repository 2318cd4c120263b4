"""Data loaders of a Keras trial's own code, and the share of each process."""

from collections.abc import Callable, Sequence
from typing import Any

import keras
import tensorflow as tf

from quintain import errors
from quintain.trials import base_trial, trial_context
from quintain.trials.keras import keras_data

_TRAINING = "build_training_data_loader"
_VALIDATION = "build_validation_data_loader"


class Loaders:
    """Calls the user's methods for data.

    Where several processes train the trial, each reads all training data, and takes its part of
    each batch, so that a step sees the very batch that a single process would. Of the validation
    data it takes whole batches, each of which only one process has. Data that the user's code has
    divided itself are left as they are.
    """

    def __init__(
        self,
        trial: Any,
        context: trial_context.TrialContext,
        call: Callable[[Callable[..., Any]], Any],
        *,
        is_own: bool,
    ) -> None:
        """Calls the methods.

        Raises:
            TrialError: If data are of a kind that is not known, or each process would read all.
        """
        self._trial = trial
        self._context = context
        self._call = call
        make = context.functions.get("make_data_loaders")
        make = make or getattr(trial, "make_data_loaders", None)
        if make is None or is_own:
            training, validation = self._load(_TRAINING), self._load(_VALIDATION)
        else:
            training, validation = self._load_pair(make)
        rank, size = context.distributed.rank, context.distributed.size
        batches = keras_data.as_batches(training[0], self.find_batch_size, context, "training")
        if size > 1 and not training[1]:
            batches = _split(batches, rank, size)
        self.training = keras_data.TrainingData(batches)
        """Batches without end."""
        self.validation = keras_data.as_batches(
            validation[0], self.find_batch_size, context, "validation"
        )
        """One pass through the validation data."""
        if size > 1 and not validation[1]:
            self.validation = _choose_batches(self.validation, rank, size)
        self.has_own_position = bool(training[1])
        """Whether each process has a position in training data of its own."""

    def find_batch_size(self) -> int:
        """Returns the size of the batches that arrays are cut into: that of all processes."""
        own = getattr(type(self._trial).batch_size, "__qualname__", "")
        if own.startswith("KerasTrial."):
            return self._context.get_global_batch_size()
        return int(base_trial.call_with_hparams(self._trial.batch_size, self._context))

    def _load(self, name: str) -> tuple[Any, bool]:
        """Returns what a method makes, and whether it is the share of this process."""
        method = getattr(self._trial, name)
        return self._watch(
            lambda: self._call(method), base_trial.describe_method(self._trial, name)
        )

    def _load_pair(self, make: Callable[..., Any]) -> tuple[tuple[Any, bool], tuple[Any, bool]]:
        context = self._context
        pair, is_divided = self._watch(
            lambda: make(context.get_experiment_config(), context.get_hparams()),
            "make_data_loaders()",
        )
        if not isinstance(pair, Sequence) or len(pair) != 2:
            raise errors.TrialError(
                f"make_data_loaders() returned {pair!r}, expected a pair of data: training and "
                "validation."
            )
        return (pair[0], is_divided), (pair[1], is_divided)

    def _watch(self, load: Callable[[], Any], name: str) -> tuple[Any, bool]:
        """Calls what makes data; refuses batches of one process that all processes would read."""
        context = self._context
        context.has_wrapped_dataset = context.has_divided_batch_size = False
        data = load()
        is_divided = context.has_wrapped_dataset
        if context.distributed.size > 1 and context.has_divided_batch_size and not is_divided:
            raise errors.TrialError(
                f"{name} makes batches of context.get_per_slot_batch_size(), but each process "
                "would read all data. Let each have its share, "
                "`context.wrap_dataset(dataset).batch(...)`, or make batches of "
                "context.get_global_batch_size(), of which each process takes its part."
            )
        return data, is_divided


def take_part(batch: Any, rank: int, size: int) -> Any:
    """Returns a process' part of a batch: parts differ by one example at most.

    A batch of fewer examples than processes goes to all of them as it is: the mean over them is the
    same then, and none has a batch without examples.

    Example:
        >>> take_part(tf.constant([1, 2, 3, 4, 5]), 1, 2).numpy().tolist()
        [3, 4, 5]
    """
    first = tf.nest.flatten(batch)[0]
    count = first.shape[0]
    if count is None:
        count = keras_data.count_in_graph(batch)
        start = tf.where(count < size, 0, count * rank // size)
        stop = tf.where(count < size, count, count * (rank + 1) // size)
    elif count < size:
        return batch
    else:
        start, stop = count * rank // size, count * (rank + 1) // size
    return tf.nest.map_structure(lambda part: part[start:stop], batch)


def _split(batches: Any, rank: int, size: int) -> Any:
    if not isinstance(batches, tf.data.Dataset):
        return _Parts(batches, rank, size)
    for part in tf.nest.flatten(batches.element_spec):
        if not isinstance(part, tf.TensorSpec | tf.RaggedTensorSpec):
            raise errors.TrialError(
                f"{_TRAINING}(): batches of {type(part).__name__} can't be divided among the "
                "processes of a trial; let each have its share of the examples by "
                "`context.wrap_dataset(dataset).batch(context.get_per_slot_batch_size())`."
            )
    return batches.map(lambda *batch: take_part(batch[0] if len(batch) == 1 else batch, rank, size))


def _choose_batches(batches: Any, rank: int, size: int) -> Any:
    if isinstance(batches, tf.data.Dataset):
        return batches.shard(size, rank)
    return _Chosen(batches, rank, size)


class _Parts(keras.utils.PyDataset):
    """A process' part of each batch."""

    def __init__(self, batches: Any, rank: int, size: int) -> None:
        super().__init__()
        self._batches = batches
        self._rank, self._size = rank, size

    def __len__(self) -> int:
        return len(self._batches)

    def __getitem__(self, index: int) -> Any:
        return take_part(keras_data.to_tensors(self._batches[index]), self._rank, self._size)

    def on_epoch_end(self) -> None:
        self._batches.on_epoch_end()


class _Chosen(_Parts):
    """Every so manyth batch."""

    def __len__(self) -> int:
        return len(range(self._rank, len(self._batches), self._size))

    def __getitem__(self, index: int) -> Any:
        return self._batches[self._rank + index * self._size]
