"""Config classes as they are written: their fields, and what is wrong with a definition."""

import dataclasses
import functools
import re
import types
from typing import Any


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
