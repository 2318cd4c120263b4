"""JSON Schema of a config, with which editors complete and check YAML files."""

import ast
import collections.abc
import dataclasses
import enum
import functools
import inspect
import itertools
import json
import math
import textwrap
import types
import typing
from collections.abc import Mapping
from typing import Any, Final, Union

from quintain.config import base_config, class_definitions, one_of, value_tree

DIALECT: Final = "https://json-schema.org/draft/2020-12/schema"
_TYPES: Final = {
    bool: "boolean",
    int: "integer",
    float: "number",
    str: "string",
    type(None): "null",
    dict: "object",
    collections.abc.Mapping: "object",
    list: "array",
    tuple: "array",
    collections.abc.Sequence: "array",
}
_BOUNDS: Final = {
    "ge": "minimum",
    "gt": "exclusiveMinimum",
    "le": "maximum",
    "lt": "exclusiveMaximum",
}
_LENGTHS: Final = {"min_length": "min", "max_length": "max"}


def build_schema(
    config: base_config.Config | type[base_config.Config],
    *,
    extra_properties: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """Returns the schema (draft 2020-12) of files that override `config`.

    Args:
        config: An instance: its sub-configs' own classes count, not those they are annotated with.
            A class stands for an instance with its defaults.
        extra_properties: Schemas of further names at the top level.
    """
    builder = _Builder()
    name = builder.describe(config() if isinstance(config, type) else config)
    if name is None:
        return {"$schema": DIALECT, "type": "object"}
    top, definitions = builder.definitions[name], dict(builder.definitions)
    if json.dumps(_refer(name)) not in json.dumps(definitions):
        del definitions[name]
    properties = {**top["properties"], **(extra_properties or {})}
    return {"$schema": DIALECT, **top, "properties": properties, "$defs": definitions}


@functools.cache
def field_docs(cls: type) -> dict[str, str]:
    """Returns the text under each field of a config class and its bases.

    Example:
        >>> from quintain.config import one_of
        >>> field_docs(one_of.OneOfConfig)["type"]
        'Name of the sub-config in use; None uses none of them.'
    """
    docs: dict[str, str] = {}
    for base in reversed(cls.__mro__):
        if dataclasses.is_dataclass(base):
            docs.update(_read_field_docs(base))
    return docs


def _read_field_docs(cls: type) -> dict[str, str]:
    """Reads the strings under the fields out of the source of one class, if there is a source."""
    try:
        tree = ast.parse(textwrap.dedent(inspect.getsource(cls)))
    except (OSError, TypeError, SyntaxError):
        return {}
    body = typing.cast(ast.ClassDef, tree.body[0]).body
    return {
        field.target.id: " ".join(doc.value.value.split())
        for field, doc in itertools.pairwise(body)
        if isinstance(field, ast.AnnAssign)
        and isinstance(field.target, ast.Name)
        and isinstance(doc, ast.Expr)
        and isinstance(doc.value, ast.Constant)
        and isinstance(doc.value.value, str)
    }


class _Builder:
    """Collects the definitions of config classes.

    Two instances of a class may hold different classes below them; then each has its own
    definition. What is only annotated is described once for its class, so a class may contain
    itself.
    """

    def __init__(self) -> None:
        self.definitions: dict[str, Any] = {}
        self._of_class: dict[type, str] = {}
        self._used: set[str] = set()

    def describe(self, config: base_config.Config) -> str | None:
        """Returns the name of an instance's definition, or None if any names are allowed."""
        if type(config) is base_config.Config:
            return None
        schema = self._describe_fields(config)
        name = self._find_equal(schema) or self._reserve(type(config))
        self.definitions[name] = schema
        return name

    def _describe_class(self, cls: type[base_config.Config]) -> dict[str, Any]:
        if cls is base_config.Config:
            return {"type": "object"}
        if cls in self._of_class:
            self._used.add(self._of_class[cls])
            return _refer(self._of_class[cls])
        self._of_class[cls] = name = self._reserve(cls)
        schema = self._describe_fields(cls())
        equal = self._find_equal(schema)
        if equal is not None and name not in self._used:
            del self.definitions[name]
            self._of_class[cls] = equal
            return _refer(equal)
        self.definitions[name] = schema
        return _refer(name)

    def _reserve(self, cls: type) -> str:
        names = itertools.chain([cls.__name__], (f"{cls.__name__}{n}" for n in itertools.count(2)))
        name = next(name for name in names if name not in self.definitions)
        self.definitions[name] = None
        return name

    def _find_equal(self, schema: Mapping[str, Any]) -> str | None:
        return next((name for name, known in self.definitions.items() if known == schema), None)

    def _describe_fields(self, config: base_config.Config) -> dict[str, Any]:
        cls = type(config)
        schema = {
            "title": cls.__name__,
            "description": _summary(cls),
            "type": "object",
            "additionalProperties": False,
            "properties": {
                field.name: self._describe_field(config, field.name)
                for field in dataclasses.fields(config)
            },
        }
        return {name: value for name, value in schema.items() if value != ""}

    def _describe_field(self, config: base_config.Config, name: str) -> dict[str, Any]:
        annotation = class_definitions.annotations(type(config)).get(name, Any)
        value = getattr(config, name)
        if isinstance(config, one_of.OneOfConfig) and name == "type":
            schema: dict[str, Any] = {"enum": [*config.choices(), None]}
        elif isinstance(value, base_config.Config) and annotation is not Any:
            schema = self._describe_instance(value)
            if type(None) in typing.get_args(annotation):
                schema = {"anyOf": [schema, {"type": "null"}]}
        else:
            schema = self._describe_annotation(annotation)
            schema = self._add_elements(schema, value)
        if not isinstance(value, base_config.Config):
            schema = {**schema, **_describe_default(value)}
        if doc := field_docs(type(config)).get(name):
            schema = {**schema, "description": doc}
        return schema

    def _describe_instance(self, config: base_config.Config) -> dict[str, Any]:
        name = self.describe(config)
        return {"type": "object"} if name is None else _refer(name)

    def _add_elements(self, schema: dict[str, Any], value: Any) -> dict[str, Any]:
        """Allows the classes of the configs in a list, besides the annotated one."""
        if not isinstance(value, list | tuple) or "items" not in schema:
            return schema
        choices = [schema["items"]]
        for part in value:
            if isinstance(part, base_config.Config):
                found = self._describe_instance(part)
                choices += [] if found in choices else [found]
        return schema if len(choices) == 1 else {**schema, "items": {"anyOf": choices}}

    def _describe_annotation(self, annotation: Any) -> dict[str, Any]:
        origin, args = typing.get_origin(annotation), typing.get_args(annotation)
        if origin is typing.Annotated:
            schema = self._describe_annotation(args[0])
            return {**schema, **_describe_bounds(args[1:], schema)}
        if origin in (Union, types.UnionType):
            return {"anyOf": [self._describe_annotation(part) for part in args]}
        if origin is typing.Literal:
            return {"enum": list(args)}
        if isinstance(annotation, type) and issubclass(annotation, enum.Enum):
            return {"enum": [member.value for member in annotation]}
        if isinstance(annotation, type) and issubclass(annotation, base_config.Config):
            return self._describe_class(annotation)
        kind = _TYPES.get(origin or annotation)
        if kind is None:
            return {}
        if kind == "object" and len(args) == 2:
            return {"type": kind, "additionalProperties": self._describe_annotation(args[1])}
        if kind == "array" and args:
            return {"type": kind, **self._describe_items(origin, args)}
        return {"type": kind}

    def _describe_items(self, origin: Any, args: tuple[Any, ...]) -> dict[str, Any]:
        if origin is not tuple or args[-1] is Ellipsis:
            return {"items": self._describe_annotation(args[0])}
        parts = [self._describe_annotation(part) for part in args]
        return {"prefixItems": parts, "minItems": len(parts), "maxItems": len(parts)}


def _refer(name: str) -> dict[str, Any]:
    return {"$ref": f"#/$defs/{name}"}


def _summary(cls: type) -> str:
    """Returns the first paragraph of a class's docstring; dataclasses make one up without."""
    doc = inspect.cleandoc(cls.__doc__ or "")
    is_made_up = doc.startswith(f"{cls.__name__}(")
    return "" if is_made_up else " ".join(doc.partition("\n\n")[0].split())


def _describe_bounds(bounds: tuple[Any, ...], schema: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the bounds that JSON can express; an infinite one, which asks for finite, is none."""
    described = {}
    for bound in bounds:
        for name, keyword in _BOUNDS.items():
            limit = getattr(bound, name, None)
            if limit is not None and math.isfinite(limit):
                described[keyword] = limit
        for name, prefix in _LENGTHS.items():
            if getattr(bound, name, None) is not None:
                suffix = "Length" if schema.get("type") == "string" else "Items"
                described[f"{prefix}{suffix}"] = getattr(bound, name)
    return described


def _describe_default(value: Any) -> dict[str, Any]:
    """Returns the default, unless JSON can't express it: infinity and NaN."""
    try:
        return {"default": json.loads(json.dumps(_to_json(value), allow_nan=False))}
    except ValueError:
        return {}


def _to_json(value: Any) -> Any:
    if isinstance(value, list | tuple):
        return [_to_json(part) for part in value]
    if isinstance(value, dict):
        return {str(name): _to_json(part) for name, part in value.items()}
    if isinstance(value, base_config.Config):
        return _to_json(value.as_dict())
    return value_tree.to_plain_scalar(value)
