"""Data of `fit`, converted to datasets of batches."""

import itertools
import json
from collections.abc import Iterator
from typing import Any, Final

import keras
import numpy as np
import tensorflow as tf

from quintain import errors
from quintain.core import user_modules

BATCH_SIZE: Final = 32
"""Examples of a batch of arrays unless the caller says otherwise."""

Data = Any
"""A `tf.data.Dataset` of batches, a `keras.utils.PyDataset`, arrays `(x, y)` or `(x, y, weights)`,
or a function that returns one of them."""


def resolve(data: Data, name: str) -> Any:
    """Returns what a function gives, or data as they are.

    Args:
        data: The data, or the function.
        name: What errors call them.

    Raises:
        ConfigError: If they are of a kind that is not known, or arrays differ in length.
    """
    found = data() if _is_function(data) else data
    if isinstance(found, tf.data.Dataset | keras.utils.PyDataset):
        return found
    if isinstance(found, tuple | list) and 2 <= len(found) <= 3:
        _check_lengths(found, name)
        return tuple(found)
    raise errors.ConfigError(
        f"{name}: got {type(found).__name__}, expected a tf.data.Dataset of batches, a "
        "keras.utils.PyDataset, arrays (x, y) or (x, y, sample_weight), or a function that returns "
        "one of them."
    )


def name_function(data: Data) -> str:
    """Returns `MODULE:NAME` of a function that can be imported; empty of anything else."""
    name = getattr(data, "__qualname__", "")
    if not (_is_function(data) and name.isidentifier()):
        return ""
    module = user_modules.name_module(data.__module__)
    return "" if module == user_modules.MAIN else f"{module}:{name}"


def find_spec(data: Any, name: str) -> Any:
    """Returns the specs of a batch, without the number of its examples.

    Args:
        data: What `resolve` returned.
        name: What errors call it.

    Raises:
        ConfigError: If its elements are no batches.
    """
    if isinstance(data, tf.data.Dataset):
        spec = data.element_spec
    else:
        batch = _to_tuple(data[0]) if isinstance(data, keras.utils.PyDataset) else data
        spec = tf.nest.map_structure(
            lambda part: tf.TensorSpec(np.shape(part), tf.as_dtype(_find_dtype(part))), batch
        )
    for part in tf.nest.flatten(spec):
        if isinstance(part, tf.TensorSpec) and part.shape.rank == 0:
            raise errors.ConfigError(
                f"{name}: the dataset has elements {spec}, expected batches; call .batch(...)."
            )
    return tf.nest.map_structure(_free, spec)


def count_batches(data: Any, batch_size: int) -> int | None:
    """Returns the batches of one pass; None if that is not known, or there is no end."""
    if isinstance(data, tf.data.Dataset):
        size = int(data.cardinality())
        return size if size >= 0 else None
    if isinstance(data, keras.utils.PyDataset):
        return data.num_batches
    return -(-_count_examples(data) // batch_size)


def build(
    data: Any,
    *,
    batch_size: int,
    is_training: bool,
    seed: int | None,
    input_context: tf.distribute.InputContext | None,
) -> tf.data.Dataset:
    """Returns a dataset of batches for one replica.

    For training it has no end, and arrays are shuffled.

    Args:
        data: What `resolve` returned.
        batch_size: Examples of a batch of arrays, over all replicas.
        is_training: Whether it is trained on.
        seed: Seed of shuffling.
        input_context: Which part of the data is read.

    Raises:
        ConfigError: If batches can't be cut for several replicas.
    """
    if isinstance(data, tf.data.Dataset):
        dataset = data
    elif isinstance(data, keras.utils.PyDataset):
        spec = find_spec(data, "data")
        dataset = tf.data.Dataset.from_generator(
            lambda: _iterate(data, is_endless=is_training), output_signature=spec
        )
    else:
        dataset = tf.data.Dataset.from_tensor_slices(data)
        if is_training:
            dataset = dataset.shuffle(_count_examples(data), seed=seed)
        dataset = dataset.batch(batch_size)
    if is_training and not isinstance(data, keras.utils.PyDataset):
        dataset = dataset.repeat()
    return dataset if input_context is None else _share(dataset, input_context)


def to_text(spec: Any) -> str:
    """Returns the specs of a batch as JSON, for a config."""
    return json.dumps(_to_plain(spec))


def from_text(text: str) -> Any:
    """Returns what `to_text` was given."""
    return _from_plain(json.loads(text))


def _is_function(data: Any) -> bool:
    return callable(data) and not isinstance(data, keras.Model | keras.utils.PyDataset)


def _iterate(data: keras.utils.PyDataset, *, is_endless: bool) -> Iterator[Any]:
    """Yields batches as Keras does: in their order, and `on_epoch_end` after each pass."""
    for _ in itertools.count() if is_endless else range(1):
        data.on_epoch_begin()
        for number in range(data.num_batches):
            yield _to_tuple(data[number])
        data.on_epoch_end()


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
    return int(_find_shape(tf.nest.flatten(arrays)[0])[0])


def _check_lengths(arrays: Any, name: str) -> None:
    """Raises ConfigError for arrays that are not as long as each other, or have no examples."""
    shapes = [_find_shape(part) for part in tf.nest.flatten(arrays)]
    if not all(len(shape) for shape in shapes):
        raise errors.ConfigError(f"{name}: got a single value or None, expected arrays.")
    lengths = [int(shape[0]) for shape in shapes]
    if len(set(lengths)) > 1 or not lengths[0]:
        given = ", ".join(map(str, lengths))
        raise errors.ConfigError(
            f"{name}: got arrays of {given} examples, expected as many in each, and one at least."
        )


def _find_shape(part: Any) -> Any:
    return part.shape if hasattr(part, "shape") else np.shape(part)


def _to_tuple(batch: Any) -> Any:
    return tuple(batch) if isinstance(batch, list) else batch


def _find_dtype(part: Any) -> Any:
    return part.dtype if hasattr(part, "dtype") else np.asarray(part).dtype


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
