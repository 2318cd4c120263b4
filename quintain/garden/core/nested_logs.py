"""Metrics in nested dictionaries, and files and summaries of them."""

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import tensorflow as tf

from quintain import orbit
from quintain.files import file_paths, whole_files


def get_leaf_nested_dict(d: Mapping[str, Any], keys: Sequence[str]) -> Any:
    """Returns the value at the end of a path of keys.

    Args:
        d: Nested dictionary.
        keys: The path.

    Raises:
        KeyError: If the path leads nowhere, or to a dictionary.

    Example:
        >>> get_leaf_nested_dict({"a": {"b": 5}}, ["a", "b"])
        5
    """
    leaf: Any = d
    for key in keys:
        if not isinstance(leaf, Mapping) or key not in leaf:
            raise KeyError(
                f"Path not exist while traversing the dictionary: got keys {list(keys)!r}, but "
                f"there is no {key!r} in {leaf!r}."
            )
        leaf = leaf[key]
    if isinstance(leaf, Mapping):
        raise KeyError(
            f"The value extracted with keys {list(keys)!r} is no leaf but a dictionary: {leaf!r}."
        )
    return leaf


def cast_leaf_nested_dict(d: Mapping[str, Any], cast_fn: Callable[[Any], Any]) -> dict[str, Any]:
    """Returns a nested dictionary with every leaf replaced by what `cast_fn` makes of it.

    Example:
        >>> cast_leaf_nested_dict({"a": {"b": "5"}, "c": 6.5}, int)
        {'a': {'b': 5}, 'c': 6}
    """
    return {
        key: cast_leaf_nested_dict(value, cast_fn) if isinstance(value, Mapping) else cast_fn(value)
        for key, value in d.items()
    }


def write_json_summary(log_dir: str, global_step: int, eval_metrics: Mapping[str, Any]) -> None:
    """Writes metrics to `metrics-STEP.json`, as strings.

    Args:
        log_dir: Directory of the file, which must exist.
        global_step: Step of the evaluation.
        eval_metrics: Tensors or other values by name.
    """
    texts = {
        name: str(value.numpy() if hasattr(value, "numpy") else value)
        for name, value in eval_metrics.items()
    }
    path = file_paths.join(log_dir, f"metrics-{global_step}.json")
    whole_files.write(path, json.dumps(texts, indent=4) + "\n")


def write_summary(
    summary_writer: tf.summary.SummaryWriter, global_step: int, eval_metrics: Mapping[str, Any]
) -> None:
    """Writes metrics as summaries, and flushes the writer.

    Args:
        summary_writer: The writer.
        global_step: Step of the evaluation.
        eval_metrics: Scalar tensors or numbers by name.
    """
    numbers = {name: float(orbit.utils.get_value(value)) for name, value in eval_metrics.items()}
    with summary_writer.as_default():
        for name, number in numbers.items():
            tf.summary.scalar(name, number, step=global_step)
        summary_writer.flush()
