"""Checkpoint of the variables of a Keras model and its optimizer.

The files are a checkpoint of TensorFlow's, with the names that `tf.train.Checkpoint` would give to
lists of variables. Its own object builds and traces functions first, which takes longer than all
values of a small model take to write.
"""

import contextlib
import math
import os
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import keras
import tensorflow as tf

from quintain import errors
from quintain.files import literal_paths


def write(prefix: str, values: Mapping[str, list[tf.Variable]]) -> None:
    """Writes the values of all variables."""
    named = _name_all(values)
    tf.raw_ops.SaveV2(
        prefix=prefix,
        tensor_names=list(named),
        shape_and_slices=[""] * len(named),
        tensors=[variable.read_value() for variable in named.values()],
    )


def measure(variables: Iterable[tf.Variable]) -> int:
    """Returns the bytes of the values of variables."""
    return sum(variable.shape.num_elements() * variable.dtype.size for variable in variables)


def read(prefix: str, values: Mapping[str, list[tf.Variable]]) -> None:
    """Assigns what a checkpoint holds.

    Raises:
        CheckpointError: If numbers, shapes or types of variables differ.
    """
    if not os.path.exists(f"{prefix}.index"):
        raise errors.CheckpointError(f"{prefix}.index: there is no such file.")
    reader = literal_paths.read(prefix)
    shapes, types = reader.get_variable_to_shape_map(), reader.get_variable_to_dtype_map()
    for part, variables in values.items():
        stored = sorted(name for name in shapes if name.startswith(f"{part}/"))
        if len(stored) != len(variables):
            raise errors.CheckpointError(
                f"{prefix}: it has {len(stored)} variables of the {part}, the trial "
                f"{len(variables)}. Is the model another one than when it was saved?"
            )
        for number, variable in enumerate(variables):
            shape, dtype = shapes[_name(part, number)], types[_name(part, number)]
            if list(shape) != variable.shape.as_list():
                raise errors.CheckpointError(
                    f"{prefix}: variable {number} of the {part} ({variable.name}) has the shape "
                    f"{shape}, the trial's {variable.shape.as_list()}; "
                    f"{math.prod(shape)} values do not fit."
                )
            if dtype != variable.dtype:
                raise errors.CheckpointError(
                    f"{prefix}: variable {number} of the {part} ({variable.name}) is of type "
                    f"{dtype.name}, the trial's of type {variable.dtype.name}."
                )
    for name, variable in _name_all(values).items():
        variable.assign(reader.get_tensor(name))


@contextlib.contextmanager
def learning_rates_preserved(variables: Iterable[tf.Variable]) -> Iterator[None]:
    """Puts back learning rates, which are a trial's own hyperparameters, after this block."""
    rates = [one for one in variables if one.name.rpartition("/")[2] == "learning_rate:0"]
    own = [rate.read_value() for rate in rates]
    yield
    for rate, value in zip(rates, own, strict=True):
        rate.assign(value)


def unwrap(variables: Iterable[Any]) -> list[tf.Variable]:
    """Returns the variables of TensorFlow, which those of Keras wrap."""
    return [one.value if isinstance(one, keras.Variable) else one for one in variables]


def _name_all(values: Mapping[str, list[tf.Variable]]) -> dict[str, tf.Variable]:
    return {
        _name(part, number): variable
        for part, variables in values.items()
        for number, variable in enumerate(variables)
    }


def _name(part: str, number: int) -> str:
    return f"{part}/{number}/.ATTRIBUTES/VARIABLE_VALUE"
