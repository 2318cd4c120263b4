"""JSON Schema of a config, with which editors complete and check YAML files."""

import ast
import dataclasses
import enum
import functools
import inspect
import itertools
import textwrap
import types
import typing
from collections.abc import Mapping
from typing import Any, Final, Union

from quintain.config import base_config, field_types, one_of

DIALECT: Final = "https://json-schema.org/draft/2020-12/schema"
_TYPES: Final = {
    bool: "boolean",
    int: "integer",
    float: "number",
    str: "string",
    type(None): "null",
    dict: "object",
    list: "array",
    tuple: "array",
}
_BOUNDS: Final = {
    "ge": "minimum",
    "gt": "exclusiveMinimum",
    "le": "maximum",
    "lt": "exclusiveMaximum",
}


def build_schema(
    config: base_config.Config, *, extra_properties: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """Returns the schema (draft 2020-12) of files that override `config`.

    Args:
        config: An instance: its sub-configs' own classes count, not those they are annotated with.
        extra_properties: Schemas of further names at the top level.
    """
    definitions: dict[str, Any] = {}
    reference = _describe_config(config, definitions)
    top = definitions.pop(reference["$ref"].rpartition("/")[2])
    top["properties"].update(extra_properties or {})
    return {"$schema": DIALECT, **top, "$defs": definitions}


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


def _describe_config(config: base_config.Config, definitions: dict[str, Any]) -> dict[str, Any]:
    """Adds the definition of a config's class and returns a reference to it.

    Two instances of a class may hold different classes below them; then each has its own
    definition.
    """
    cls = type(config)
    if cls is base_config.Config:
        return {"type": "object"}
    schema = {
        "title": cls.__name__,
        "description": inspect.cleandoc(cls.__doc__ or "").partition("\n")[0],
        "type": "object",
        "additionalProperties": False,
        "properties": {
            field.name: _describe_field(config, field.name, definitions)
            for field in dataclasses.fields(config)
        },
    }
    name, number = cls.__name__, 1
    while name in definitions and definitions[name] != schema:
        number += 1
        name = f"{cls.__name__}{number}"
    definitions[name] = schema
    return {"$ref": f"#/$defs/{name}"}


def _describe_field(
    config: base_config.Config, name: str, definitions: dict[str, Any]
) -> dict[str, Any]:
    annotation = field_types.annotations(type(config)).get(name, Any)
    value = getattr(config, name)
    if isinstance(config, one_of.OneOfConfig) and name == "type":
        schema: dict[str, Any] = {"enum": [*config.choices(), None]}
    elif isinstance(value, base_config.Config):
        schema = _describe_config(value, definitions)
        if type(None) in typing.get_args(annotation):
            schema = {"anyOf": [schema, {"type": "null"}]}
    else:
        schema = _describe_annotation(annotation, definitions)
    if not isinstance(value, base_config.Config):
        schema = {**schema, "default": _to_json(value)}
    if doc := field_docs(type(config)).get(name):
        schema = {**schema, "description": doc}
    return schema


def _describe_annotation(annotation: Any, definitions: dict[str, Any]) -> dict[str, Any]:
    origin, args = typing.get_origin(annotation), typing.get_args(annotation)
    if annotation is Any:
        return {}
    if origin is typing.Annotated:
        bounds = {
            keyword: getattr(bound, name)
            for bound in args[1:]
            for name, keyword in _BOUNDS.items()
            if hasattr(bound, name)
        }
        return {**_describe_annotation(args[0], definitions), **bounds}
    if origin in (Union, types.UnionType):
        return {"anyOf": [_describe_annotation(part, definitions) for part in args]}
    if origin is typing.Literal:
        return {"enum": list(args)}
    if isinstance(annotation, type) and issubclass(annotation, enum.Enum):
        return {"enum": [member.value for member in annotation]}
    if isinstance(annotation, type) and issubclass(annotation, base_config.Config):
        return _describe_config(annotation(), definitions)
    if origin in (list, tuple) and args:
        return {"type": "array", "items": _describe_annotation(args[0], definitions)}
    kind = _TYPES.get(origin or annotation)
    return {"type": kind} if kind else {}


def _to_json(value: Any) -> Any:
    if isinstance(value, list | tuple):
        return [_to_json(part) for part in value]
    if isinstance(value, base_config.Config):
        return value.as_dict()
    return field_types.to_plain_scalar(value)
