"""Conversion of TensorFlow values to Python."""

from typing import Any

import numpy as np
import tensorflow as tf


def get_value(x: Any) -> Any:
    """Returns the NumPy value of a tensor or variable, and anything else as it is."""
    return x.numpy() if tf.is_tensor(x) else x


def to_host(output: Any) -> Any:
    """Returns a copy of a nested structure in which `get_value` is applied to every leaf."""
    return tf.nest.map_structure(get_value, output)


def of_replicas(value: Any) -> list[np.ndarray]:
    """Returns the arrays of all replicas of a logged value: a tuple, or of one replica a tensor."""
    return [np.asarray(part) for part in (value if isinstance(value, tuple | list) else (value,))]
