"""Introspection of config classes: fields, and mistakes in a definition."""

import dataclasses
import functools
import re
import sys
import types
import typing
from typing import Any

from quintain import errors
from quintain.config import plain_data, value_tree


def find_local_names(cls: type, frame: types.FrameType | None) -> dict[str, Any]:
    """Returns what the annotations of a class that is being defined in a function name there."""
    while frame is not None and frame.f_code.co_name == "__init_subclass__":
        frame = frame.f_back
    if frame is None or frame.f_locals is frame.f_globals:
        return {}
    words = set(re.findall(r"\w+", repr(vars(cls).get("__annotations__", {}))))
    return {name: value for name, value in frame.f_locals.items() if name in words}


def check_definition(cls: type) -> None:
    """Refuses, where the class is defined, what could only fail mysteriously later.

    Raises:
        TypeError: If the class has slots, or a field with the name of a method.
    """
    if "__slots__" in vars(cls):
        raise TypeError(f"{cls.__qualname__}: configs can't have slots; leave `slots=True` out.")
    for name in vars(cls).get("__annotations__", {}):
        inherited = next((vars(base)[name] for base in cls.__mro__[1:] if name in vars(base)), None)
        if isinstance(inherited, types.FunctionType | classmethod | property):
            raise TypeError(
                f"{cls.__qualname__}.{name}: a field can't have the name of a method of configs; "
                "give it another name."
            )


@functools.cache
def field_names(cls: type) -> tuple[str, ...]:
    """Returns the names of a class's fields, those of its bases first."""
    return tuple(field.name for field in dataclasses.fields(cls))


@functools.cache
def required_names(cls: type) -> tuple[str, ...]:
    """Returns the names of the fields without a default."""
    return tuple(
        field.name
        for field in dataclasses.fields(cls)
        if field.init
        and field.default is dataclasses.MISSING
        and field.default_factory is dataclasses.MISSING
    )


@functools.cache
def annotations(cls: type) -> dict[str, Any]:
    """Returns the annotations of the fields of a config class, those in quotes resolved.

    Raises:
        ConfigError: If a name in a quoted annotation is not known.
    """
    found: dict[str, tuple[type, Any]] = {}
    for base in reversed(cls.__mro__):
        found |= {
            name: (base, part) for name, part in vars(base).get("__annotations__", {}).items()
        }
    return {
        field.name: _loosen(_resolve(*found[field.name], field.name), field)
        for field in dataclasses.fields(cls)
    }


def _loosen(annotation: Any, field: "dataclasses.Field[Any]") -> Any:
    """Reads `rate: float = None` and `sizes: Tuple[int] = (1, 2)` as they are meant."""
    if field.default is None and annotation is not Any:
        annotation = typing.Optional[annotation]  # noqa: UP045 - an annotation may be of any kind
    if typing.get_origin(annotation) in (typing.Union, types.UnionType):
        return typing.Union[tuple(map(_of_any_length, typing.get_args(annotation)))]  # noqa: UP007
    return _of_any_length(annotation)


def _of_any_length(annotation: Any) -> Any:
    args = typing.get_args(annotation)
    is_single = typing.get_origin(annotation) is tuple and len(args) == 1
    return tuple[args[0], ...] if is_single else annotation  # type: ignore[valid-type]


def unused(default: Any, reason: str) -> Any:
    """Returns a field of the reference that has no meaning here.

    It may be given at its default, as full dumps of the reference's configs do; any other value is
    refused.

    Args:
        default: The default.
        reason: Why, and what to use instead; a sentence or two.

    Example:
        >>> from quintain.config import base_config
        >>> @dataclasses.dataclass
        ... class Model(base_config.Config):
        ...     hub_url: str = base_config.unused("", "Models are built from configs.")
        >>> Model(hub_url="tf/1")
        Traceback (most recent call last):
            ...
        quintain.errors.ConfigError: hub_url: got 'tf/1', expected only the default '', because it \
has no effect here. Models are built from configs.
    """
    return dataclasses.field(default=default, metadata={"unused": reason})


def used_values(config: value_tree.ValueTree) -> dict[str, Any]:
    """Returns a config as plain data, without the fields that are `unused`."""
    cls: type = type(config)
    fields = _fields(cls)
    return {
        name: value
        for name, value in config.as_dict().items()
        if name not in fields or "unused" not in fields[name].metadata
    }


def find_refusal(cls: type, name: str, value: Any, path: str) -> list[errors.Problem]:
    """Returns the problem of a value for a field that is `unused`, unless it is the default."""
    field = _fields(cls)[name]
    if "unused" not in field.metadata or value == field.default:
        return []
    return [
        errors.Problem(
            path,
            f"got {errors.show(value)}, expected only the default {field.default!r}, because it "
            f"has no effect here. {field.metadata['unused']}",
        )
    ]


@functools.cache
def _fields(cls: type) -> "dict[str, dataclasses.Field[Any]]":
    return {field.name: field for field in dataclasses.fields(cls)}


def is_plain_default(cls: type, name: str, value: Any) -> bool:
    """Returns whether a value is the default of its field, and what a config may hold."""
    field = _fields(cls)[name]
    default = field.default
    if default is dataclasses.MISSING and field.default_factory is not dataclasses.MISSING:
        default = field.default_factory()
    if type(value) is not type(default) or value != default:
        return False
    return isinstance(value, value_tree.ValueTree) or not any(plain_data.find_faults(value))


def _resolve(cls: type, annotation: Any, name: str) -> Any:
    holder = types.SimpleNamespace(__annotations__={name: annotation})
    known = {**vars(cls), **vars(cls).get("_local_names", {}), cls.__name__: cls}
    module = vars(sys.modules[cls.__module__]) if cls.__module__ in sys.modules else {}
    try:
        return typing.get_type_hints(holder, module, known, include_extras=True)[name]
    except NameError as error:
        raise errors.ConfigError(
            f"{cls.__qualname__}.{name}: the annotation {errors.show(annotation)} can't be "
            f"resolved: {error}. Define or import what it names before the class."
        ) from error


def unknown_name(cls: type, name: str, path: str | None = None) -> errors.Problem:
    """Returns that a class has no field of this name, with the nearest one or all that it has."""
    known = field_names(cls)
    hint = errors.suggest(name, known)
    if not hint and known:
        hint = f" Its fields: {', '.join(known)}."
    return errors.Problem(
        path or name, f"unknown; {cls.__name__} has no such field.{hint}", is_unknown=True
    )
