"""Parameters of a rule, declared once as the fields of its class.

A field is an argument of the constructor, an attribute and a part of the description. Its
annotation says what it may hold: `ranges.Fraction`, `bool`, `Sequence[str] | None`.
"""

import dataclasses
import functools
import inspect
from collections.abc import Sequence
from typing import Any, TypeVar

import pydantic
from typing_extensions import dataclass_transform

from quintain import errors
from quintain.config import type_words

C = TypeVar("C", bound=type)


@dataclass_transform(kw_only_default=True, eq_default=False, field_specifiers=(dataclasses.field,))
def declare(cls: C) -> C:
    """Makes the fields of an optimizer class, and of its bases, arguments of its constructor.

    All are keyword-only but the learning rate, and those that `POSITIONAL` of the class lists,
    which follow it in that order. A subclass with a constructor of its own does without this.
    """
    dataclasses.dataclass(kw_only=True, eq=False, repr=False)(cls)
    if "learning_rate" in vars(cls):
        delattr(cls, "learning_rate")  # The default hides the property that Keras has.
    if "POSITIONAL" in vars(cls):
        _take_by_position(cls, ("learning_rate", *vars(cls)["POSITIONAL"]))
    return cls


def _take_by_position(cls: type, names: Sequence[str]) -> None:
    """Lets a constructor take arguments by their place."""
    by_keyword = inspect.getattr_static(cls, "__init__")

    @functools.wraps(by_keyword)
    def construct(self: Any, *args: Any, **kwargs: Any) -> None:
        bound = construct.__signature__.bind(self, *args, **kwargs)  # type: ignore[attr-defined]
        bound.arguments.pop("self")
        by_keyword(self, **bound.arguments)

    own, *parameters = inspect.signature(by_keyword).parameters.values()
    by_name = {parameter.name: parameter for parameter in parameters}
    first = [by_name.pop(name).replace(kind=own.kind) for name in names]
    signature = inspect.Signature([own, *first, *by_name.values()])
    setattr(construct, "__signature__", signature)  # noqa: B010 - mypy
    setattr(cls, "__init__", construct)  # noqa: B010 - mypy refuses to have it assigned


def check(instance: Any) -> dict[str, Any]:
    """Returns the fields of a dataclass, as numbers and tuples of the types they are declared with.

    Raises:
        ValueError: If one is not what its annotation allows.
    """
    return {
        field.name: _check_one(field.name, field.type, getattr(instance, field.name))
        for field in dataclasses.fields(instance)
    }


def describe(instance: Any) -> dict[str, Any]:
    """Returns the fields of a dataclass as plain data, without those with `repr=False`."""
    values = {
        field.name: getattr(instance, field.name)
        for field in dataclasses.fields(instance)
        if field.repr
    }
    return {
        name: list(value) if isinstance(value, tuple) else value for name, value in values.items()
    }


def _check_one(name: str, annotation: Any, value: Any) -> Any:
    try:
        checked = _find_adapter(annotation).validate_python(value)
    except pydantic.ValidationError:
        words = type_words.describe(annotation)
        choices = type_words.find_choices(annotation)
        near = errors.suggest(value, choices) if isinstance(value, str) else ""
        raise ValueError(f"{name}: got {value!r}, expected {words}.{near}") from None
    return tuple(checked) if isinstance(checked, list) else checked


@functools.cache
def _find_adapter(annotation: Any) -> pydantic.TypeAdapter[Any]:
    config = pydantic.ConfigDict(arbitrary_types_allowed=True)
    return pydantic.TypeAdapter(annotation, config=config)
