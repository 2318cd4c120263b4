"""Checks one value against the annotation of its field.

Leaves are checked by pydantic, in strict mode: no string becomes a number, no number a string.
Configs, and lists and tuples of them, are built here, so that problems deep inside keep their path.
"""

import enum
import functools
import types
import typing
from collections.abc import Mapping
from typing import Any, Union

from quintain import errors
from quintain.config import base_config

_EXACT = (bool, int, float, str)
_PLAIN = (bool, int, float, str, type(None))


@functools.cache
def annotations(cls: type) -> dict[str, Any]:
    """Returns the resolved annotations of a config class.

    An annotation written as a string that can't be resolved, because its class is local to a
    function, counts as `Any`.
    """
    try:
        return typing.get_type_hints(cls, include_extras=True)
    except NameError:
        return {
            name: Any if isinstance(annotation, str) else annotation
            for base in reversed(cls.__mro__)
            for name, annotation in vars(base).get("__annotations__", {}).items()
        }


def convert(annotation: Any, value: Any, path: str, problems: list[errors.Problem]) -> Any:
    """Returns `value` as `annotation` asks for it, or adds what is wrong to `problems`."""
    if annotation in _EXACT and type(value) is annotation:
        return value
    if isinstance(value, base_config.Config):
        return _convert_config(annotation, value, path, problems)
    config_cls = find_config_cls(annotation)
    if isinstance(value, Mapping) and (config_cls or annotation is Any):
        return _build_config(config_cls or base_config.Config, value, path, problems)
    if isinstance(value, list | tuple) and (config_cls or annotation is Any):
        return _convert_sequence(annotation, value, path, problems)
    if annotation is Any:
        if not isinstance(value, _PLAIN):
            problems.append(
                errors.Problem(
                    path,
                    f"got {value!r} of type {type(value).__name__}, expected plain data: a string, "
                    "number, boolean, None, list or mapping.",
                )
            )
        return value
    if config_cls is not None:
        if value is None and type(None) in typing.get_args(annotation):
            return None
        problems.append(
            errors.Problem(path, f"got {value!r}, expected a mapping for {config_cls.__name__}.")
        )
        return value
    return _convert_leaf(annotation, value, path, problems)


def find_config_cls(annotation: Any) -> type["base_config.Config"] | None:
    """Returns the config class inside an annotation such as `list[X] | None`, or None."""
    if isinstance(annotation, type) and issubclass(annotation, base_config.Config):
        return annotation
    for part in typing.get_args(annotation):
        if (found := find_config_cls(part)) is not None:
            return found
    return None


def to_plain_scalar(value: Any) -> Any:
    """Returns the value of an enum member, and anything else as it is."""
    return value.value if isinstance(value, enum.Enum) else value


def describe(annotation: Any) -> str:
    """Returns an annotation in words, such as `an integer >= 1 or None`."""
    origin, args = typing.get_origin(annotation), typing.get_args(annotation)
    if origin is typing.Annotated:
        return " ".join([describe(args[0]), *map(_describe_bound, args[1:])])
    if origin in (Union, types.UnionType):
        return " or ".join(describe(part) for part in args)
    if origin is typing.Literal:
        return "one of " + ", ".join(repr(choice) for choice in args)
    if isinstance(annotation, type) and issubclass(annotation, enum.Enum):
        return "one of " + ", ".join(repr(member.value) for member in annotation)
    if origin in (list, tuple):
        inner = describe(args[0]) if args else "values"
        return f"a list of {inner.removeprefix('a ').removeprefix('an ')}s"
    names = {
        int: "an integer",
        float: "a number",
        str: "a string",
        bool: "true or false",
        type(None): "None",
        dict: "a mapping",
        list: "a list",
        tuple: "a list",
    }
    return names.get(origin or annotation, getattr(annotation, "__name__", str(annotation)))


def _describe_bound(bound: Any) -> str:
    for name, sign in (("ge", ">="), ("gt", ">"), ("le", "<="), ("lt", "<")):
        if hasattr(bound, name):
            return f"{sign} {getattr(bound, name)}"
    return f"({bound})"


def _convert_config(
    annotation: Any, value: "base_config.Config", path: str, problems: list[errors.Problem]
) -> Any:
    """Returns a copy of a config instance; it must be of the annotated class."""
    config_cls = find_config_cls(annotation)
    if annotation is not Any and (config_cls is None or not isinstance(value, config_cls)):
        if config_cls is not None and type(value) is base_config.Config:
            return _build_config(config_cls, value.as_dict(), path, problems)
        problems.append(
            errors.Problem(
                path,
                f"got a {type(value).__name__}, expected "
                f"{config_cls.__name__ if config_cls else describe(annotation)}.",
            )
        )
        return value
    return value.replace()


def _build_config(
    config_cls: type["base_config.Config"],
    params: Mapping[str, Any],
    path: str,
    problems: list[errors.Problem],
) -> "base_config.Config":
    config = config_cls()
    config._apply(params, path, True, problems)
    return config


def _convert_sequence(
    annotation: Any, value: Any, path: str, problems: list[errors.Problem]
) -> Any:
    """Returns a list or tuple with each element converted."""
    sequence = _find_sequence(annotation)
    element = Any
    if sequence is not None and typing.get_args(sequence):
        element = typing.get_args(sequence)[0]
    elif annotation is not Any:
        problems.append(errors.Problem(path, f"got {value!r}, expected {describe(annotation)}."))
        return value
    parts = [
        convert(element, part, f"{path}[{index}]", problems) for index, part in enumerate(value)
    ]
    wanted = typing.get_origin(sequence) if sequence is not None else type(value)
    return tuple(parts) if wanted is tuple else parts


def _find_sequence(annotation: Any) -> Any | None:
    if typing.get_origin(annotation) in (list, tuple):
        return annotation
    for part in typing.get_args(annotation):
        if (found := _find_sequence(part)) is not None:
            return found
    return None


def _convert_leaf(annotation: Any, value: Any, path: str, problems: list[errors.Problem]) -> Any:
    import pydantic  # noqa: PLC0415 - takes 0.1 s, which programs that only show help need not pay

    try:
        return _adapter(annotation).validate_python(_prepare(annotation, value), strict=True)
    except pydantic.ValidationError:
        hint = ""
        if isinstance(value, str):
            choices = [str(choice) for choice in _choices(annotation)]
            hint = errors.suggest(value, choices)
        problems.append(
            errors.Problem(path, f"got {value!r}, expected {describe(annotation)}.{hint}")
        )
        return value


def _prepare(annotation: Any, value: Any) -> Any:
    """Turns YAML's lists into tuples and its strings into enum members, where these are wanted."""
    if isinstance(value, list) and (sequence := _find_sequence(annotation)) is not None:
        return tuple(value) if typing.get_origin(sequence) is tuple else value
    for part in (annotation, *typing.get_args(annotation)):
        if isinstance(part, type) and issubclass(part, enum.Enum) and not isinstance(value, part):
            return next((member for member in part if member.value == value), value)
    return value


def _choices(annotation: Any) -> list[Any]:
    if typing.get_origin(annotation) is typing.Literal:
        return list(typing.get_args(annotation))
    if isinstance(annotation, type) and issubclass(annotation, enum.Enum):
        return [member.value for member in annotation]
    return [choice for part in typing.get_args(annotation) for choice in _choices(part)]


@functools.cache
def _adapter(annotation: Any) -> Any:
    import pydantic  # noqa: PLC0415 - see above

    return pydantic.TypeAdapter(annotation)
