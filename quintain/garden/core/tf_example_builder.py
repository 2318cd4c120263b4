"""Builder of a `tf.train.Example`, feature by feature."""

from collections.abc import Mapping, Sequence
from typing import Any, Self

import numpy as np
import tensorflow as tf

BytesValueType = bytes | Sequence[bytes] | str | Sequence[str]
"""Bytes or text, which is encoded as UTF-8; one or several."""


class TfExampleBuilder:
    """Builds a `tf.train.Example`; every method that changes it returns the builder.

    Example:
        >>> example = (
        ...     TfExampleBuilder()
        ...     .add_bytes_feature("name", "foobar")
        ...     .add_ints_feature("ids", [1, 2, 3])
        ...     .example
        ... )
        >>> list(example.features.feature["ids"].int64_list.value)
        [1, 2, 3]
    """

    def __init__(self) -> None:
        self._example = tf.train.Example()

    @property
    def example(self) -> tf.train.Example:
        """The example, to which later calls add."""
        return self._example

    @property
    def serialized_example(self) -> bytes:
        """The example as a record."""
        return bytes(self._example.SerializeToString())

    def set(self, example: tf.train.Example) -> Self:
        """Goes on with another example.

        Args:
            example: The example to add to.
        """
        self._example = example
        return self

    def reset(self) -> Self:
        """Starts again with an example without features."""
        self._example = tf.train.Example()
        return self

    def add_feature_dict(self, feature_dict: Mapping[str, tf.train.Feature]) -> Self:
        """Adds features by name, each in place of a former one of its name.

        Args:
            feature_dict: Features by name.
        """
        for key, feature in feature_dict.items():
            self.add_feature(key, feature)
        return self

    def add_feature(self, key: str, feature: tf.train.Feature) -> Self:
        """Adds a feature, in place of a former one of this name.

        Args:
            key: Name of the feature.
            feature: The feature.
        """
        self._example.features.feature[key].CopyFrom(feature)
        return self

    def add_bytes_feature(self, key: str, value: BytesValueType) -> Self:
        """Adds bytes or text, one or a list.

        Args:
            key: Name of the feature.
            value: The bytes or the text.
        """
        parts = [part.encode() if isinstance(part, str) else part for part in _to_list(value)]
        return self.add_feature(key, tf.train.Feature(bytes_list=tf.train.BytesList(value=parts)))

    def add_ints_feature(self, key: str, value: int | Sequence[int]) -> Self:
        """Adds integers, one or a list.

        Args:
            key: Name of the feature.
            value: The integers.
        """
        return self.add_feature(
            key, tf.train.Feature(int64_list=tf.train.Int64List(value=_to_list(value)))
        )

    def add_floats_feature(self, key: str, value: float | Sequence[float]) -> Self:
        """Adds floats, one or a list.

        Args:
            key: Name of the feature.
            value: The floats.
        """
        return self.add_feature(
            key, tf.train.Feature(float_list=tf.train.FloatList(value=_to_list(value)))
        )


def _to_list(value: Any) -> Any:
    return value if isinstance(value, list | tuple | np.ndarray) else [value]
