"""Checks what users want to change of an experiment that runs."""

import typing
from collections.abc import Mapping
from typing import Any, Final

import pydantic

from quintain import errors
from quintain.records.rows import experiment

_NAMES: Final = tuple(experiment.Changes.__annotations__)
_TYPES: Final = pydantic.TypeAdapter(experiment.Changes)


def check(changes: Mapping[str, Any]) -> experiment.Changes:
    """Returns changes without those that are None.

    Raises:
        ConfigError: If one of them can't be changed, or has another type than its field.
    """
    for name in changes:
        if name not in _NAMES:
            raise errors.ConfigError(
                f"{name}: can't be changed, expected one of {', '.join(_NAMES)}."
                f"{errors.suggest(name, _NAMES)}"
            )
    given = {name: value for name, value in changes.items() if value is not None}
    try:
        _TYPES.validate_python(given, strict=True)
    except pydantic.ValidationError as error:
        problem = error.errors()[0]
        raise errors.ConfigError(
            f"{'.'.join(map(str, problem['loc']))}: got {repr(problem['input'])[:200]}, "
            f"{problem['msg'][:1].lower()}{problem['msg'][1:]}."
        ) from error
    return typing.cast(experiment.Changes, given)
