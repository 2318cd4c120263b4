"""Input of a graph: the structure of a record, and its size."""

from collections.abc import Mapping
from typing import Any

import tensorflow as tf

from quintain import errors

v1 = tf.compat.v1


def read(handle: tf.Tensor, train: Any, validation: Any) -> Any:
    """Returns the next batch of the iterator that a handle names.

    Raises:
        TrialError: If the datasets have different structures, or no batches.
    """
    left, right = train.element_spec, validation.element_spec
    paths = flatten(left)
    others = flatten(right)
    if paths.keys() != others.keys():
        raise errors.TrialError(
            "make_data_loaders(): the datasets have different structures. Training: "
            f"{left}. Validation: {right}."
        )
    shapes = []
    for path, spec in paths.items():
        other = others[path]
        place = f" at {path!r}" if len(paths) > 1 else ""
        if type(spec) is not type(other) or spec.dtype != other.dtype:
            raise errors.TrialError(
                f"make_data_loaders(): the datasets differ{place}: training {spec}, validation "
                f"{other}."
            )
        if spec.shape.rank == 0 or other.shape.rank == 0:
            raise errors.TrialError(
                f"make_data_loaders(): the data{place} are single numbers ({spec}), expected "
                "batches; call .batch(...) on both datasets."
            )
        if spec.shape.rank is not None and spec.shape.rank != other.shape.rank:
            raise errors.TrialError(
                f"make_data_loaders(): the datasets have different ranks{place}: training "
                f"{spec.shape}, validation {other.shape}. Are both batched?"
            )
        shapes.append(spec.shape.most_specific_compatible_shape(other.shape))
    iterator = v1.data.Iterator.from_string_handle(
        handle,
        v1.data.get_output_types(train),
        tf.nest.pack_sequence_as(left, shapes),
        v1.data.get_output_classes(train),
    )
    return iterator.get_next()


def flatten(record: Any) -> dict[str, Any]:
    """Returns the parts of a nest by their paths, `record` if there is one part only."""
    flat: dict[str, Any] = {}

    def walk(part: Any, path: str) -> None:
        if isinstance(part, Mapping):
            for name in sorted(part):
                walk(part[name], f"{path}/{name}" if path else str(name))
        elif isinstance(part, tuple | list):
            for number, value in enumerate(part):
                walk(value, f"{path}/{number}" if path else str(number))
        else:
            flat[path or "record"] = part

    walk(record, "")
    return flat


def batch_size(record: Any) -> tf.Tensor:
    """Returns how many examples a record has, `[]`, by the first of its parts."""
    first = tf.nest.flatten(record)[0]
    shape = first.dense_shape if isinstance(first, tf.SparseTensor) else tf.shape(first)
    return shape[0]


def limit_threads(config: Any, num_threads: int | None) -> None:
    """Sets the threads of a `tf.ConfigProto`, where it does not say how many."""
    if num_threads is not None:
        for name in ("intra_op_parallelism_threads", "inter_op_parallelism_threads"):
            setattr(config, name, getattr(config, name) or num_threads)
