"""Validation of one value against the annotation of its field.

Leaves are checked by pydantic, in strict mode: no string becomes a number, no number a string. A
value that does not fit as it is may still fit as plain data: a list for a tuple, the value of an
enum for its member. Configs, and containers of them, are built here, so that problems deep inside
keep their path.
"""

import collections.abc
import copy
import dataclasses
import enum
import functools
import json
import types
import typing
from collections.abc import Mapping
from typing import Any, Final, Union

from quintain import errors
from quintain.config import frozen, plain_data, type_words, value_tree

_EXACT: Final = (bool, int, float, str)
_SEQUENCES: Final = (list, tuple, collections.abc.Sequence)
_MAPPINGS: Final = (dict, collections.abc.Mapping)
_INVALID: Final = object()
_OWN_PACKAGE: Final = __name__.rpartition(".")[0]


def convert(annotation: Any, value: Any, path: str, problems: list[errors.Problem]) -> Any:
    """Returns `value` as `annotation` asks for it, or adds what is wrong to `problems`."""
    if annotation in _EXACT and type(value) is annotation:
        fault = plain_data.find_scalar_fault(value)
        if fault is not None:
            problems.append(errors.Problem(path, fault))
        return value
    if value is None and getattr(annotation, "_may_be_none", False):
        return None
    if not _is_built_here(annotation):
        return _convert_leaf(annotation, value, path, problems)
    origin = typing.get_origin(annotation)
    if origin is typing.Annotated:
        return _convert_annotated(annotation, value, path, problems)
    if origin in (Union, types.UnionType):
        return _convert_union(annotation, value, path, problems)
    if annotation is Any:
        return _convert_any(value, path, problems)
    return _convert_parts(annotation, value, path, problems)


def _convert_parts(annotation: Any, value: Any, path: str, problems: list[errors.Problem]) -> Any:
    origin = typing.get_origin(annotation)
    if origin in _SEQUENCES and isinstance(value, list | tuple):
        return _convert_sequence(annotation, value, path, problems)
    if origin in _MAPPINGS and isinstance(value, Mapping):
        return _convert_mapping(annotation, value, path, problems)
    if isinstance(annotation, type) and isinstance(value, Mapping | value_tree.ValueTree):
        return _convert_config(annotation, value, path, problems)
    problems.append(_misfit(annotation, value, path))
    return value


@functools.cache
def _is_built_here(annotation: Any) -> bool:
    """Returns True if configs may be inside, or a sequence of no fixed kind."""
    if annotation is Any or typing.get_origin(annotation) is collections.abc.Sequence:
        return True
    return _has_config(annotation) or any(
        part is not Any and _is_built_here(part) for part in _arguments(annotation)
    )


def _has_config(annotation: Any) -> bool:
    if isinstance(annotation, type) and issubclass(annotation, value_tree.ValueTree):
        return True
    return any(map(_has_config, _arguments(annotation)))


def _arguments(annotation: Any) -> tuple[Any, ...]:
    is_literal = typing.get_origin(annotation) is typing.Literal
    return () if is_literal else typing.get_args(annotation)


def _convert_annotated(
    annotation: Any, value: Any, path: str, problems: list[errors.Problem]
) -> Any:
    """Converts, then checks the conditions beside the annotation, such as `Len(1)`."""
    inner, *conditions = typing.get_args(annotation)
    own: list[errors.Problem] = []
    converted = convert(inner, value, path, own)
    if not own and _validate(typing.Annotated[Any, *conditions], converted) is _INVALID:
        own.append(_misfit(annotation, value, path))
    problems += own
    return converted


def _convert_union(annotation: Any, value: Any, path: str, problems: list[errors.Problem]) -> Any:
    """Converts to the first member that fits; else reports about the one that is nearest."""
    members = typing.get_args(annotation)
    if value is None and type(None) in members:
        return None
    leaves = tuple(part for part in members if not _is_built_here(part))
    candidates = [part for part in members if _is_built_here(part)]
    attempts: list[list[errors.Problem]] = []
    for candidate in [*candidates, Union[leaves]] if leaves else candidates:  # noqa: UP007
        own: list[errors.Problem] = []
        converted = convert(candidate, value, path, own)
        if not own:
            return converted
        if any(problem.path != path for problem in own):
            attempts.append(own)
    # Problems below the path come from a member of the right kind, such as a mapping for a config.
    nearest = min(attempts, key=len, default=[_misfit(annotation, value, path)])
    problems.extend(nearest)
    return value


def _convert_any(value: Any, path: str, problems: list[errors.Problem]) -> Any:
    if isinstance(value, value_tree.ValueTree | Mapping):
        return _convert_config(value_tree.ValueTree._open_cls, value, path, problems)
    if isinstance(value, list | tuple):
        return _convert_sequence(type(value), value, path, problems)
    value = value_tree.unwrap_number(value)
    problems += plain_data.find_faults(value, path)
    return value


def _convert_sequence(
    annotation: Any, value: Any, path: str, problems: list[errors.Problem]
) -> Any:
    """Returns a list, or for other annotations a tuple, with each element converted."""
    kind = typing.get_origin(annotation) or annotation
    args = typing.get_args(annotation) or (Any, ...)
    is_fixed = kind is tuple and args[-1] is not Ellipsis
    if is_fixed and len(args) != len(value):
        problems.append(_misfit(annotation, value, path))
        return value
    parts = [
        convert(args[index] if is_fixed else args[0], part, f"{path}[{index}]", problems)
        for index, part in enumerate(value)
    ]
    return parts if issubclass(kind, list) else tuple(parts)


def _convert_mapping(
    annotation: Any, value: Mapping[Any, Any], path: str, problems: list[errors.Problem]
) -> Any:
    keys, values = typing.get_args(annotation)
    return frozen.NamedDict(
        (
            convert(keys, key, f"{path}.{key}", problems),
            convert(values, part, f"{path}.{key}", problems),
        )
        for key, part in value.items()
    )


def _convert_config(
    config_cls: type[Any], value: Any, path: str, problems: list[errors.Problem]
) -> Any:
    """Builds a config from a mapping, or copies one."""
    if isinstance(value, config_cls) or _are_related(config_cls, type(value)):
        duplicate = copy.deepcopy(value)
        duplicate._set_locked(False)
        return duplicate
    if isinstance(value, value_tree.ValueTree):
        if type(value) is not value_tree.ValueTree._open_cls:
            problems.append(_misfit(config_cls, value, path))
            return value
        value = value.as_dict()
    try:
        return config_cls(value)
    except errors.ConfigError as error:
        found = error.problems or [errors.Problem("", str(error))]
        problems += [
            dataclasses.replace(problem, path=".".join(filter(None, (path, problem.path))))
            for problem in found
        ]
        return value


def _are_related(one: type, other: type) -> bool:
    """Returns True if two classes of configs have a base that is more than the container of all."""
    shared = set(one.__mro__) & set(other.__mro__) - {object}
    return any(not base.__module__.startswith(_OWN_PACKAGE) for base in shared)


def _convert_leaf(annotation: Any, value: Any, path: str, problems: list[errors.Problem]) -> Any:
    is_container = type(value) is value_tree.ValueTree._open_cls
    converted = _validate(annotation, value.as_dict() if is_container else value)
    if converted is _INVALID:
        misfit = _misfit(annotation, value, path)
        hint = ""
        if isinstance(value, str):
            hint = errors.suggest(value, map(str, type_words.find_choices(annotation)))
        problems.append(dataclasses.replace(misfit, message=misfit.message + hint))
        return value
    problems += plain_data.find_faults(converted, path)
    return frozen.thaw(converted)


def _validate(annotation: Any, value: Any) -> Any:
    """Returns what pydantic makes of `value` as it is, or as JSON, or `_INVALID`."""
    import pydantic  # noqa: PLC0415 - takes 0.1 s, which programs that only show help need not pay

    adapter = _adapter(annotation)
    try:
        converted = adapter.validate_python(value, strict=True)
    except pydantic.ValidationError:
        try:
            converted = adapter.validate_json(
                json.dumps(value, default=value_tree.to_plain_scalar), strict=True
            )
        except (pydantic.ValidationError, TypeError, ValueError):
            return _INVALID
    # To Python, 1 equals True, so that `Literal[1]` would take it.
    is_swapped = isinstance(converted, bool) != isinstance(value, bool)
    return _INVALID if is_swapped and not isinstance(converted, enum.Enum) else converted


@functools.cache
def _adapter(annotation: Any) -> Any:
    import pydantic  # noqa: PLC0415 - see above

    return pydantic.TypeAdapter(annotation)


def _misfit(annotation: Any, value: Any, path: str) -> errors.Problem:
    is_config = isinstance(value, value_tree.ValueTree)
    shown = f"a {type(value).__name__}" if is_config else errors.show(value)
    return errors.Problem(path, f"got {shown}, expected {type_words.describe(annotation)}.")
