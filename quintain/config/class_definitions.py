"""Config classes as they are written: their fields, and what is wrong with a definition."""

import dataclasses
import functools
import re
import sys
import types
import typing
from typing import Any

from quintain import errors


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
        field.name: _resolve(*found[field.name], field.name) for field in dataclasses.fields(cls)
    }


def _resolve(cls: type, annotation: Any, name: str) -> Any:
    holder = types.SimpleNamespace(__annotations__={name: annotation})
    known = {**vars(cls), **vars(cls).get("_local_names", {}), cls.__name__: cls}
    module = vars(sys.modules[cls.__module__]) if cls.__module__ in sys.modules else {}
    try:
        return typing.get_type_hints(holder, module, known, include_extras=True)[name]
    except NameError as error:
        raise errors.ConfigError(
            f"{cls.__qualname__}.{name}: the annotation {errors.show(annotation)} can't "
            f"be resolved: {error}. "
            "Define or import what it names before the class."
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
