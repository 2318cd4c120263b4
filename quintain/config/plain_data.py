"""Plain data: text, numbers of 64 bits, booleans, None, lists and mappings by names."""

import enum
import math
import os
from collections.abc import Iterator
from typing import Any

from quintain import errors
from quintain.config import yaml_limits


def find_scalar_fault(value: Any) -> str | None:
    """Returns why a scalar can't be written and read by every program; None if it can.

    Example:
        >>> find_scalar_fault(10**30)
        'got 1000000000000000000000000000000, expected an integer of at most 64 bits.'
    """
    if isinstance(value, bool | None):
        return None
    if isinstance(value, int) and not -(2**63) <= value < 2**63:
        return f"got {errors.show(value)}, expected an integer of at most 64 bits."
    if isinstance(value, str):
        if "\0" in value:
            return f"got {errors.show(value)}, expected text without the character NUL."
        if not value.isascii() and any("\ud800" <= letter <= "\udfff" for letter in value):
            return f"got {errors.show(value)}, expected text that can be written as UTF-8."
    return None


def find_faults(
    value: Any, path: str = "", *, is_json: bool = False, depth: int = 0
) -> Iterator[errors.Problem]:
    """Yields what is wrong with lists and mappings of scalars, with the place.

    Args:
        value: Anything.
        path: Where it is.
        is_json: Whether it will travel as JSON, where names are text and numbers are finite.
        depth: Lists and mappings around it.
    """
    if depth > yaml_limits.MAX_DEPTH:
        message = f"more than {yaml_limits.MAX_DEPTH} values are inside of one another."
        yield errors.Problem(path, message)
    elif isinstance(value, list | tuple):
        for index, part in enumerate(value):
            yield from find_faults(part, f"{path}[{index}]", is_json=is_json, depth=depth + 1)
    elif isinstance(value, dict):
        for name, part in value.items():
            here = f"{path}.{name}" if path else str(name)
            yield from _find_name_faults(name, path, here, is_json=is_json)
            yield from find_faults(part, here, is_json=is_json, depth=depth + 1)
    elif not isinstance(value, bool | int | float | str | enum.Enum | os.PathLike | None):
        yield errors.Problem(
            path,
            f"got {errors.show(value)} of type {type(value).__name__}, expected plain data: a "
            "string, number, boolean, None, list or mapping.",
            is_unsupported=True,
        )
    elif is_json and isinstance(value, float) and not math.isfinite(value):
        yield errors.Problem(path, f"got {value!r}, expected a finite number.")
    elif fault := find_scalar_fault(value):
        yield errors.Problem(path, fault)


def _find_name_faults(
    name: Any, path: str, here: str, *, is_json: bool
) -> Iterator[errors.Problem]:
    """Yields what is wrong with a name of a mapping at `path`, whose value is at `here`."""
    if is_json and not isinstance(name, str):
        yield errors.Problem(
            here, f"got the name {errors.show(name)}, expected text; put it in quotes."
        )
    elif isinstance(name, str) and len(name) > yaml_limits.MAX_NAME_LENGTH:
        yield errors.Problem(
            here,
            f"a name has {len(name):,} characters, expected at most {yaml_limits.MAX_NAME_LENGTH}.",
        )
    elif fault := find_scalar_fault(name):
        yield errors.Problem(path, f"a name: {fault}")
