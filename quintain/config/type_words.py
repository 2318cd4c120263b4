"""Descriptions of type annotations, for error messages."""

import collections.abc
import dataclasses
import enum
import types
import typing
from typing import Any, Final, Union

_WORDS: Final[dict[Any, tuple[str, str]]] = {
    Any: ("any value", "any values"),
    object: ("any value", "any values"),
    int: ("an integer", "integers"),
    float: ("a number", "numbers"),
    str: ("a string", "strings"),
    bool: ("true or false", "booleans"),
    type(None): ("None", "None"),
    dict: ("a mapping", "mappings"),
    collections.abc.Mapping: ("a mapping", "mappings"),
    list: ("a list", "lists"),
    tuple: ("a list", "lists"),
    collections.abc.Sequence: ("a list", "lists"),
}
_BOUNDS: Final = (("ge", ">="), ("gt", ">"), ("le", "<="), ("lt", "<"))


def describe(annotation: Any, *, is_plural: bool = False) -> str:
    """Returns an annotation in words.

    Example:
        >>> describe(list[int] | None)
        'a list of integers or None'
        >>> describe(dict[str, tuple[int, str]])
        'a mapping of strings to lists of 2: an integer, a string'
    """
    origin, args = typing.get_origin(annotation), typing.get_args(annotation)
    if origin is typing.Annotated:
        bounds = " and ".join(map(_describe_bound, args[1:]))
        return f"{describe(args[0], is_plural=is_plural)} {bounds}"
    if origin in (Union, types.UnionType):
        return " or ".join(describe(part, is_plural=is_plural) for part in args)
    if (options := choices(annotation)) and not is_plural:
        return "one of " + ", ".join(map(repr, options))
    if options:
        return "any of " + ", ".join(map(repr, options))
    kind: Any = origin or annotation
    name = getattr(kind, "__name__", str(kind))
    other = (f"a {name}", f"{name} values")
    if dataclasses.is_dataclass(kind):
        other = (f"a mapping for {name}", f"mappings for {name}")
    words = _WORDS.get(kind, other)[is_plural]
    if args and words.endswith(("list", "lists")):
        return f"{words} of {_describe_elements(kind, args)}"
    if len(args) == 2 and words.startswith(("a mapping", "mappings")):
        keys, values = (describe(part, is_plural=True) for part in args)
        return f"{words} of {keys} to {values}"
    return words


def choices(annotation: Any) -> list[Any]:
    """Returns the values that a `Literal` or an enum allows, none for other annotations."""
    if typing.get_origin(annotation) is typing.Literal:
        return list(typing.get_args(annotation))
    if isinstance(annotation, type) and issubclass(annotation, enum.Enum):
        return [member.value for member in annotation]
    return []


def find_choices(annotation: Any) -> list[Any]:
    """Returns the choices anywhere inside an annotation."""
    parts = [] if choices(annotation) else typing.get_args(annotation)
    return [*choices(annotation), *(choice for part in parts for choice in find_choices(part))]


def _describe_elements(kind: Any, args: tuple[Any, ...]) -> str:
    if kind is tuple and args[-1] is not Ellipsis:
        return f"{len(args)}: {', '.join(describe(part) for part in args)}"
    return describe(args[0], is_plural=True)


def _describe_bound(bound: Any) -> str:
    for name, sign in _BOUNDS:
        if hasattr(bound, name):
            return f"{sign} {getattr(bound, name)}"
    return f"({bound})"
