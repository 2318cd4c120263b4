"""Dataset functions by file type."""

import functools
from collections.abc import Callable
from typing import Any, Final

import tensorflow as tf

from quintain import errors

PossibleDatasetType = type[tf.data.Dataset] | Callable[[tf.Tensor], Any]
"""A reader of one file, as an `InputReader` takes it."""

_READERS: Final[dict[str, Callable[..., tf.data.Dataset]]] = {
    "tfrecord": tf.data.TFRecordDataset,
    "tfrecord_compressed": functools.partial(tf.data.TFRecordDataset, compression_type="GZIP"),
}


def pick_dataset_fn(file_type: str) -> Callable[..., tf.data.Dataset]:
    """Returns the function that reads files of a type.

    An `InputReader` given `tf.data.TFRecordDataset` itself reads files whose name ends in `.gz` as
    compressed; `tfrecord_compressed` is for files with other names.

    Raises:
        ConfigError: If the type is another.
    """
    if file_type not in _READERS:
        known = " or ".join(map(repr, _READERS))
        raise errors.ConfigError(
            f"file_type: got {file_type!r}, expected {known}.{errors.suggest(file_type, _READERS)}"
        )
    return _READERS[file_type]
