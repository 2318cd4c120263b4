"""Reading of TensorBoard event files."""

from collections.abc import Mapping

import numpy as np
import tensorflow as tf


def read_scalars(directory: str) -> Mapping[str, list[tuple[int, float]]]:
    """Returns `{tag: [(step, value), ...]}` of the event files of a directory."""
    scalars: dict[str, list[tuple[int, float]]] = {}
    for path in sorted(tf.io.gfile.glob(f"{directory}/events.*")):
        for record in tf.data.TFRecordDataset(path).as_numpy_iterator():
            event = tf.compat.v1.Event.FromString(record)
            for value in event.summary.value:
                number = float(np.ravel(tf.make_ndarray(value.tensor))[0])
                scalars.setdefault(value.tag, []).append((event.step, number))
    return scalars
