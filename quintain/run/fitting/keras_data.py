"""Data of `fit`, converted to datasets of batches."""

import functools
import itertools
import json
import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

import keras
import numpy as np
import tensorflow as tf

from quintain import errors
from quintain.core import user_modules

BATCH_SIZE: Final = 32
"""Examples of a batch of arrays unless the caller says otherwise."""

_NUM_FIRST: Final = 2
"""Batches of Python code that are compared to find the dimensions that differ, as by Keras."""

Data = Any
"""A `tf.data.Dataset` of batches, a `keras.utils.PyDataset`, arrays `(x, y)` or `(x, y, weights)`,
a generator of batches, or a function that returns one of them."""

logger = logging.getLogger(__name__)


class Generator:
    """Python generator, of which the first batches are drawn early for their shapes.

    Args:
        begun: The generator, of which nothing has been read.
        make: Returns one for each further pass; None if nothing does.
    """

    def __init__(self, begun: Iterator[Any], make: Callable[[], Iterator[Any]] | None) -> None:
        self.first = list(itertools.islice(begun, _NUM_FIRST))
        self.is_repeatable = make is not None
        self._begun: Iterator[Any] | None = itertools.chain(self.first, begun)
        self._make = make or (lambda: iter(()))

    def begin(self) -> Iterator[Any]:
        """Returns the batches of one pass."""
        batches, self._begun = self._begun or self._make(), None
        return batches


def resolve(data: Data, name: str) -> Any:
    """Returns what a function gives, or data as they are.

    Args:
        data: The data, or the function.
        name: What errors call them.

    Raises:
        ConfigError: If they are of a kind that is not known, or arrays differ in length.
    """
    found = data() if _is_function(data) else data
    if isinstance(found, tf.data.Dataset | keras.utils.PyDataset | Generator):
        return found
    if isinstance(found, Iterator):
        return Generator(found, None if found is data else data)
    if isinstance(found, tuple | list) and 2 <= len(found) <= 3:
        arrays = tf.nest.map_structure(lambda part: _to_array(part, name), tuple(found))
        _check_lengths(arrays, name)
        return arrays
    raise errors.ConfigError(
        f"{name}: got {type(found).__name__}, expected a tf.data.Dataset of batches, a "
        "keras.utils.PyDataset, arrays (x, y) or (x, y, sample_weight), a generator of batches, or "
        "a function that returns one of them."
    )


def name_function(data: Data) -> str:
    """Returns `MODULE:NAME` of a function that can be imported; empty of anything else."""
    name = getattr(data, "__qualname__", "")
    if not (_is_function(data) and name.isidentifier()):
        return ""
    module = user_modules.name_module(data.__module__)
    return "" if module == user_modules.MAIN else f"{module}:{name}"


def cut(data: Any, begin: float, end: float) -> Any:
    """Returns arrays between two shares of their length, where `validation_split` cuts them.

    Args:
        data: What `resolve` returned.
        begin: Share of the examples before the first one.
        end: Share of the examples up to the last one; 0 and 1 return all data.

    Raises:
        ConfigError: If data are no arrays, or all or none of the examples would be left.
    """
    if (begin, end) == (0.0, 1.0):
        return data
    if not isinstance(data, tuple):
        raise errors.ConfigError(
            f"validation_split: only arrays can be split, and `train` is a {type(data).__name__}. "
            "Give `validation`."
        )
    count = _count_examples(data)
    kept = slice(int(count * begin), int(count * end))
    if not 0 < kept.stop - kept.start < count:
        raise errors.ConfigError(
            f"validation_split: it leaves {count} examples undivided. Give a share between 0 and 1 "
            "that leaves some to train on and some to validate on."
        )
    return tf.nest.map_structure(lambda part: part[kept], data)


def list_weights(class_weight: Mapping[int, float] | None) -> tuple[float, ...]:
    """Returns the weights of classes in their order; 1 for those that are not named.

    Raises:
        ConfigError: If it is no mapping of classes to weights.
    """
    given = class_weight or {}
    try:
        last = max(given, default=-1)
        found = tuple(float(given.get(number, 1.0)) for number in range(last + 1))
    except (AttributeError, TypeError, ValueError):
        found = ()
    if sum(number in given for number in range(len(found))) != len(given):
        raise errors.ConfigError(
            f"class_weight: got {errors.show(class_weight)}, expected weights by the numbers of "
            "classes, such as {0: 1.0, 1: 4.0}."
        )
    return found


def add_weights(spec: Any) -> Any:
    """Returns the specs of a batch to which weights of classes are added.

    Raises:
        ConfigError: If it has weights already, or not one tensor of labels.
    """
    if not (isinstance(spec, tuple) and len(spec) == 2 and isinstance(spec[1], tf.TensorSpec)):
        raise errors.ConfigError(
            f"class_weight: the batches of `train` are {spec}, expected (x, y) with one tensor of "
            "labels. Give weights of examples in `train` instead."
        )
    shape = spec[1].shape
    return (*spec, tf.TensorSpec(shape[: max(shape.rank - 1, 1)], tf.float32))


def find_spec(data: Any, name: str) -> Any:
    """Returns the specs of a batch, without the number of its examples.

    Args:
        data: What `resolve` returned.
        name: What errors call it.

    Raises:
        ConfigError: If there is no batch, or elements are no batches.
    """
    if isinstance(data, tf.data.Dataset):
        spec = data.element_spec
    else:
        batches = _list_first(data)
        if not batches:
            raise errors.ConfigError(
                f"{name}: got a {type(data).__name__} that gives no batch. A generator that was "
                "read before can't begin again: give a new one, or the function that makes it."
            )
        specs = [
            tf.nest.map_structure(lambda part: tf.type_spec_from_value(_to_array(part, name)), one)
            for one in batches
        ]
        spec = tf.nest.map_structure(
            lambda one, *others: one.most_specific_common_supertype(others) or one, *specs
        )
    for part in tf.nest.flatten(spec):
        if isinstance(part, tf.TensorSpec) and part.shape.rank == 0:
            raise errors.ConfigError(
                f"{name}: the dataset has elements {spec}, expected batches; call .batch(...)."
            )
    return tf.nest.map_structure(_free, spec)


def count_batches(data: Any, batch_size: int) -> int | None:
    """Returns the batches of one pass, reading them if need be; None if there is no end.

    A generator that can be read once has none, either.
    """
    batches: Iterable[Any]
    if isinstance(data, keras.utils.PyDataset):
        return data.num_batches
    if isinstance(data, tf.data.Dataset):
        size = int(data.cardinality())
        if size != tf.data.UNKNOWN_CARDINALITY:
            return size if size >= 0 else None
        batches = data
    elif isinstance(data, Generator):
        if not data.is_repeatable:
            return None
        batches = data.begin()
    else:
        return -(-_count_examples(data) // batch_size)
    logger.warning(
        "The batches of `train` are read once to count them. Give `steps_per_epoch` to save this, "
        "or if they have no end."
    )
    return sum(1 for _ in batches)


def build(
    data: Any,
    *,
    batch_size: int,
    is_training: bool,
    shuffle_seed: int | None,
    class_weights: Sequence[float] = (),
    input_context: tf.distribute.InputContext | None,
) -> tf.data.Dataset:
    """Returns a dataset of batches for one replica, which for training has no end.

    Args:
        data: What `resolve` returned.
        batch_size: Examples of a batch of arrays, over all replicas.
        is_training: Whether it is trained on.
        shuffle_seed: Seed of the order of arrays' examples, and of the batches of a `PyDataset`;
            None keeps their order.
        class_weights: Weights that examples of each class get; empty gives none.
        input_context: Which part of the data is read.

    Raises:
        ConfigError: If there are no batches, or they can't be cut for several replicas.
    """
    if isinstance(data, keras.utils.PyDataset | Generator):
        dataset = tf.data.Dataset.from_generator(
            lambda: _iterate(data, is_endless=is_training, shuffle_seed=shuffle_seed),
            output_signature=find_spec(data, "train" if is_training else "validation"),
        )
    else:
        dataset = data
        if not isinstance(data, tf.data.Dataset):
            dataset = tf.data.Dataset.from_tensor_slices(data)
            if shuffle_seed is not None:
                dataset = dataset.shuffle(_count_examples(data), seed=shuffle_seed)
            dataset = dataset.batch(batch_size)
        if is_training:
            dataset = dataset.repeat()
    if class_weights:
        dataset = dataset.map(functools.partial(_weigh, tuple(class_weights)))
    return dataset if input_context is None else _share(dataset, input_context)


def to_text(spec: Any) -> str:
    """Returns the specs of a batch as JSON, for a config."""
    return json.dumps(_to_plain(spec))


def from_text(text: str) -> Any:
    """Returns what `to_text` was given."""
    return _from_plain(json.loads(text))


def _is_function(data: Any) -> bool:
    return callable(data) and not isinstance(data, keras.Model | keras.utils.PyDataset)


def _list_first(data: Any) -> list[Any]:
    """Returns the first batches of Python code; arrays are one."""
    if isinstance(data, keras.utils.PyDataset):
        size = _NUM_FIRST if data.num_batches is None else min(data.num_batches, _NUM_FIRST)
        return [_to_tuple(data[number]) for number in range(size)]
    return [_to_tuple(one) for one in data.first] if isinstance(data, Generator) else [data]


def _iterate(
    data: keras.utils.PyDataset | Generator, *, is_endless: bool, shuffle_seed: int | None
) -> Iterator[Any]:
    """Yields the batches of one pass, or of pass after pass until one has none."""
    for number in itertools.count() if is_endless else range(1):
        seed = None if shuffle_seed is None else [shuffle_seed, number]
        is_empty = True
        for batch in data.begin() if isinstance(data, Generator) else _iterate_once(data, seed):
            is_empty = False
            yield _to_tuple(batch)
        if is_empty:
            return


def _iterate_once(data: keras.utils.PyDataset, seed: Sequence[int] | None) -> Iterator[Any]:
    data.on_epoch_begin()
    size = data.num_batches
    numbers: Iterable[int] = itertools.count() if size is None else range(size)
    if size is not None and seed is not None:
        numbers = np.random.default_rng(seed).permutation(size).tolist()
    yield from (data[number] for number in numbers)
    data.on_epoch_end()


def _weigh(class_weights: tuple[float, ...], x: Any, y: tf.Tensor) -> tuple[Any, Any, tf.Tensor]:
    """Adds weights of examples by their classes: numbers, or the largest of several outputs."""
    classes = y
    if y.shape.rank > 1:
        classes = tf.squeeze(y, -1) if y.shape[-1] == 1 else tf.argmax(y, -1)
    classes = tf.cast(tf.round(classes), tf.int32)
    last = len(class_weights) - 1
    weights = tf.gather(tf.constant(class_weights), tf.minimum(classes, last))
    return x, y, tf.where(classes <= last, weights, 1.0)


def _share(dataset: tf.data.Dataset, context: tf.distribute.InputContext) -> tf.data.Dataset:
    """Returns the part of one replica, or of one worker."""
    if context.num_input_pipelines > 1:
        dataset = dataset.shard(context.num_input_pipelines, context.input_pipeline_id)
    num_replicas = context.num_replicas_in_sync // context.num_input_pipelines
    if num_replicas > 1:
        size = tf.nest.flatten(dataset.element_spec)[0].shape[0]
        if size is None or size % num_replicas:
            raise errors.ConfigError(
                f"train: batches of {size or 'unknown size'} can't be cut for {num_replicas} "
                "replicas; give batches of a fixed size that they divide "
                "(.batch(..., drop_remainder=True))."
            )
        dataset = dataset.rebatch(size // num_replicas)
    return dataset


def _count_examples(arrays: Any) -> int:
    return int(tf.nest.flatten(arrays)[0].shape[0])


def _check_lengths(arrays: Any, name: str) -> None:
    """Raises ConfigError for arrays that are not as long as each other, or have no examples."""
    shapes = [part.shape for part in tf.nest.flatten(arrays)]
    if not all(len(shape) for shape in shapes):
        raise errors.ConfigError(
            f"{name}: got a list, a single value or None, expected arrays (np.asarray)."
        )
    lengths = [int(shape[0]) for shape in shapes]
    if len(set(lengths)) > 1 or not lengths[0]:
        given = ", ".join(map(str, lengths))
        raise errors.ConfigError(
            f"{name}: got arrays of {given} examples, expected as many in each, and one at least."
        )


def _to_array(part: Any, name: str) -> Any:
    """Returns a tensor as it is, and anything else, such as a column of pandas, as an array.

    Raises:
        ConfigError: If it has values of several types.
    """
    if tf.is_tensor(part):
        return part
    array = np.asarray(part)
    if array.dtype != object or not array.ndim:
        return array
    try:
        return tf.convert_to_tensor(array)
    except (TypeError, ValueError) as error:
        raise errors.ConfigError(
            f"{name}: got a {type(part).__name__} with values of several types, expected numbers "
            "or texts. Give a mapping of arrays, one for each column, or numbers for the texts."
        ) from error


def _to_tuple(batch: Any) -> Any:
    return tuple(batch) if isinstance(batch, list) else batch


def _free(part: Any) -> Any:
    if not isinstance(part, tf.TensorSpec) or part.shape.rank is None:
        return part
    return tf.TensorSpec([None, *part.shape[1:]], part.dtype)


def _to_plain(spec: Any) -> Any:
    if isinstance(spec, dict):
        return {"keys": {name: _to_plain(part) for name, part in spec.items()}}
    if isinstance(spec, tuple | list):
        return {"parts": [_to_plain(part) for part in spec]}
    if isinstance(spec, tf.TensorSpec):
        shape = None if spec.shape.rank is None else spec.shape.as_list()
        return {"shape": shape, "dtype": spec.dtype.name}
    return {"unknown": str(spec)}


def _from_plain(plain: Any) -> Any:
    if "keys" in plain:
        return {name: _from_plain(part) for name, part in plain["keys"].items()}
    if "parts" in plain:
        return tuple(_from_plain(part) for part in plain["parts"])
    if "unknown" in plain:
        return plain["unknown"]
    return tf.TensorSpec(plain["shape"], plain["dtype"])
