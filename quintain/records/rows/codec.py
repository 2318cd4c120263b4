"""JSON codec of records. Numbers that are not finite travel as texts."""

import dataclasses
import enum
import functools
import math
import types
import typing
from collections.abc import Mapping
from typing import Any, Final, TypeVar

T = TypeVar("T")

NOT_FINITE: Final = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}
"""The texts of numbers that are not finite."""

_SCALARS: Final = frozenset({str, int, bool, types.NoneType})


def to_plain(value: object) -> Any:
    """Returns a record, or any nest of records, as dicts, lists, numbers and texts.

    Example:
        >>> to_plain({"a": (1, float("inf"))})
        {'a': [1, 'Infinity']}
    """
    if type(value) in _SCALARS:
        return value
    if isinstance(value, float):
        if math.isfinite(value):
            return value
        return "NaN" if math.isnan(value) else ("Infinity" if value > 0 else "-Infinity")
    if isinstance(value, enum.Enum):
        return value.value
    if isinstance(value, dict):
        return {str(name): to_plain(part) for name, part in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [to_plain(part) for part in value]
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {name: to_plain(getattr(value, name)) for name in _list_fields(type(value))}
    if isinstance(value, Mapping):
        return {str(name): to_plain(part) for name, part in value.items()}
    return value


def from_plain(kind: type[T], value: object) -> T:
    """Returns the record of a type that `to_plain` made plain.

    Raises:
        TypeError: If a field is missing or unknown.

    Example:
        >>> from_plain(tuple[float, ...], ["NaN", 1.0])
        (nan, 1.0)
    """
    result: T = _read(kind, value)
    return result


def _read(kind: Any, value: Any) -> Any:
    if value is None or kind is Any:
        return value
    origin = typing.get_origin(kind)
    if origin in (typing.Union, types.UnionType):
        options = [option for option in typing.get_args(kind) if option is not type(None)]
        return _read(options[0], value) if len(options) == 1 else value
    if dataclasses.is_dataclass(kind):
        hints = _find_hints(typing.cast(type, kind))
        build: Any = kind
        return build(**{name: _read(hints.get(name, Any), part) for name, part in value.items()})
    if isinstance(kind, type) and issubclass(kind, enum.Enum):
        return kind(value)
    if origin in (list, tuple):
        element = typing.get_args(kind)[0]
        return origin(_read(element, part) for part in value)
    if origin is dict:
        element = typing.get_args(kind)[1]
        return {name: _read(element, part) for name, part in value.items()}
    if kind is float:
        return NOT_FINITE[value] if isinstance(value, str) else float(value)
    return value


@functools.cache
def _list_fields(kind: Any) -> tuple[str, ...]:
    return tuple(field.name for field in dataclasses.fields(kind))


@functools.cache
def _find_hints(kind: Any) -> dict[str, Any]:
    return typing.get_type_hints(kind)
