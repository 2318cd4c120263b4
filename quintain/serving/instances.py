"""Examples as JSON has them, and as a model takes and gives them.

An instance is a mapping from the names of inputs to values; of a model with one input, the value
alone will do, and a string alone for a list of one. Strings that are no text are `{"b64": ...}`, as
TensorFlow Serving has it.
"""

import base64
import binascii
import dataclasses
import math
from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np
import tensorflow as tf

from quintain import errors

BYTES_KEY: Final = "b64"

Arrays = dict[str, np.ndarray]
"""An example: the values of all inputs, without the dimension of the batch."""


@dataclasses.dataclass(frozen=True)
class Gaps:
    """Values that instances may lack, as the export module of a model says it."""

    nullable: frozenset[str] = frozenset()
    """Inputs that may be null."""

    texts: frozenset[str] = frozenset()
    """Cells of CSV that stand for null."""

    ignored: frozenset[str] = frozenset()
    """Columns of CSV that are no inputs."""

    @classmethod
    def from_details(cls, details: Mapping[str, Any]) -> "Gaps":
        """Returns what the description of an export module has of it."""
        names = ("nullable", "missing_values", "ignored")
        return cls(*(frozenset(details.get(name) or ()) for name in names))

    def fill(self, instance: Any, inputs: Mapping[str, tf.TensorSpec]) -> Any:
        """Returns an instance with NaN or an empty text in place of null, where that may be."""
        if not isinstance(instance, Mapping):
            return instance
        return {
            name: ("" if inputs[name].dtype == tf.string else math.nan)
            if value is None and name in self.nullable
            else value
            for name, value in instance.items()
        }


NO_GAPS: Final = Gaps()
"""Those of instances that have to be complete."""

_KINDS: Final = {"f": "numbers", "i": "integers", "u": "integers >= 0", "b": "true or false"}


def parse(instance: Any, inputs: Mapping[str, tf.TensorSpec]) -> Arrays:
    """Returns an instance as arrays.

    Args:
        instance: Plain data as JSON gives it, or arrays.
        inputs: What the model takes, by name; the first dimension is that of the batch.

    Raises:
        DataError: Naming the input that is missing, unknown, or of another type or shape.
    """
    if not isinstance(instance, Mapping) or _is_bytes(instance):
        if len(inputs) > 1:
            raise errors.DataError(
                f"got {errors.show(instance)}, expected an object with {', '.join(inputs)}."
            )
        instance = {next(iter(inputs)): instance}
    for name in instance:
        if name not in inputs:
            raise errors.DataError(
                f"{name}: unknown; the model takes {', '.join(inputs)}."
                f"{errors.suggest(str(name), inputs)}"
            )
    return {name: _parse_value(name, instance, spec) for name, spec in inputs.items()}


def stack(examples: Sequence[Arrays]) -> Arrays:
    """Returns examples of equal shapes as a batch."""
    return {name: np.stack([one[name] for one in examples]) for name in examples[0]}


def to_plain(value: np.ndarray) -> Any:
    """Returns an output as JSON has it: null for what is no number, `{"b64": ...}` for no text."""
    return _to_plain(value.tolist())


def describe(specs: Mapping[str, tf.TensorSpec]) -> dict[str, dict[str, Any]]:
    """Returns type and shape of inputs or outputs by name, the shape without the batch."""
    return {
        name: {
            "dtype": spec.dtype.name,
            "shape": None if spec.shape.rank is None else spec.shape.as_list()[1:],
        }
        for name, spec in specs.items()
    }


def build_schema(inputs: Mapping[str, tf.TensorSpec]) -> dict[str, Any]:
    """Returns the JSON Schema of an instance."""
    properties = {name: _build_value_schema(spec) for name, spec in inputs.items()}
    whole: dict[str, Any] = {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }
    return whole if len(properties) > 1 else {"anyOf": [whole, *properties.values()]}


def build_example(inputs: Mapping[str, tf.TensorSpec]) -> Any:
    """Returns an instance of zeros, or of short texts."""
    values = {name: _build_zeros(spec) for name, spec in inputs.items()}
    return values if len(values) > 1 else next(iter(values.values()))


def _parse_value(name: str, instance: Mapping[str, Any], spec: tf.TensorSpec) -> np.ndarray:
    if name not in instance:
        raise errors.DataError(f"{name}: missing; expected {_describe_spec(spec)}.")
    value = instance[name]
    try:
        if spec.dtype == tf.string:
            array = np.asarray(_encode(value), dtype=object)
            if array.ndim == 0 and spec.shape.rank == 2 and spec.shape[1] == 1:
                array = array.reshape(1)
            is_fitting = all(isinstance(part, bytes) for part in array.reshape(-1))
        else:
            array = np.asarray(value)
            is_fitting = _fits(array, np.dtype(spec.dtype.as_numpy_dtype))
    except (ValueError, binascii.Error, UnicodeError):
        is_fitting, array = False, np.zeros(0)
    if not is_fitting or not spec.shape[1:].is_compatible_with(array.shape):
        found = f" of shape {list(array.shape)}" if is_fitting else ""
        raise errors.DataError(
            f"{name}: got {_show(value)}{found}, expected {_describe_spec(spec)}."
        )
    return array if spec.dtype == tf.string else array.astype(spec.dtype.as_numpy_dtype)


def _show(value: Any) -> str:
    shown = errors.show(value.tolist() if isinstance(value, np.ndarray) else value)
    return shown if len(shown) < 80 else f"{shown[:77]}..."


def _fits(array: np.ndarray, dtype: np.dtype[Any]) -> bool:
    """True if values can be of a type without a change."""
    if array.size == 0 and array.dtype.kind == "f":
        return True  # An empty list says nothing of its type.
    if dtype.kind in "iu":
        if array.dtype.kind not in "iu":
            return False
        limits = np.iinfo(dtype)
        return bool(array.size == 0 or (array.min() >= limits.min and array.max() <= limits.max))
    if dtype.kind == "b":
        return array.dtype.kind == "b"
    return array.dtype.kind in "iuf"


def _encode(value: Any) -> Any:
    """Returns strings, alone or in lists, as bytes; others stay, to be refused."""
    if isinstance(value, np.ndarray):
        value = value.tolist()
    if isinstance(value, list | tuple):
        return [_encode(part) for part in value]
    if _is_bytes(value):
        return base64.b64decode(value[BYTES_KEY], validate=True)
    return value.encode() if isinstance(value, str) else value


def _is_bytes(value: Any) -> bool:
    return isinstance(value, Mapping) and list(value) == [BYTES_KEY]


def _to_plain(value: Any) -> Any:
    if isinstance(value, list):
        return [_to_plain(part) for part in value]
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, bytes):
        try:
            return value.decode()
        except UnicodeDecodeError:
            return {BYTES_KEY: base64.b64encode(value).decode()}
    return value


def _describe_spec(spec: tf.TensorSpec) -> str:
    kind = "strings" if spec.dtype == tf.string else _KINDS.get(_kind(spec), spec.dtype.name)
    if spec.shape.rank is None:
        return kind
    shape = spec.shape.as_list()[1:]
    if not shape:
        return {"strings": "a string", "numbers": "a number", "integers": "an integer"}.get(
            kind, kind
        ) + f" ({spec.dtype.name})"
    sizes = ", ".join("any" if size is None else str(size) for size in shape)
    return f"{kind} ({spec.dtype.name}) of shape [{sizes}]"


def _kind(spec: tf.TensorSpec) -> str:
    kind = np.dtype(spec.dtype.as_numpy_dtype).kind
    return "f" if kind == "V" else kind  # bfloat16 has a kind of its own.


def _build_value_schema(spec: tf.TensorSpec) -> dict[str, Any]:
    kinds = {"f": "number", "i": "integer", "u": "integer", "b": "boolean"}
    is_text = spec.dtype == tf.string
    schema: dict[str, Any] = {"type": "string" if is_text else kinds.get(_kind(spec), "number")}
    for size in reversed([] if spec.shape.rank is None else spec.shape.as_list()[1:]):
        sizes = {} if size is None else {"minItems": size, "maxItems": size}
        schema = {"type": "array", "items": schema, **sizes}
    return schema


def _build_zeros(spec: tf.TensorSpec) -> Any:
    shape = [size or 1 for size in ([] if spec.shape.rank is None else spec.shape.as_list()[1:])]
    if spec.dtype == tf.string:
        return np.full(shape, "a").tolist()
    return np.zeros(
        shape, np.dtype("float32") if _kind(spec) == "f" else spec.dtype.as_numpy_dtype
    ).tolist()
