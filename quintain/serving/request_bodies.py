"""Reads what requests to a served model hold, with one short message for what is wrong with them.

A body may hold millions of values. A library that lists every wrong one takes a minute and
gigabytes for the list, and nobody else is answered meanwhile; so the first problem is the only one.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

from quintain import errors

SIGNATURE: Final = "serving_default"
"""The signature; there is one."""

_LONGEST_EXAMPLE: Final = 200


def show_example(field: str, example: Any) -> str:
    """Returns what messages say of how a body should look.

    Example:
        >>> show_example("texts", "some text")
        'such as {"texts": ["some text"]}'
    """
    text = json.dumps({field: [example]}, ensure_ascii=False)
    return f"such as {text}" if len(text) <= _LONGEST_EXAMPLE else "as GET / shows one"


def read_list(body: Any, field: str, hint: str) -> list[Any]:
    """Returns the instances of a body that has nothing but them.

    Raises:
        DataError: If the body holds something else.

    Example:
        >>> read_list({"texts": ["a", "b"]}, "texts", "as here")
        ['a', 'b']
    """
    return _check_list(field, _check_fields(body, [field], hint).get(field), hint)


def read_instances(body: Any, hint: str) -> tuple[list[Any], bool]:
    """Returns the instances of a body in the words of TensorFlow Serving, and if they are columns.

    Raises:
        DataError: If the body holds something else.

    Example:
        >>> read_instances({"inputs": {"x": [1, 2]}}, "as here")
        ([{'x': 1}, {'x': 2}], True)
    """
    fields = _check_fields(body, ["instances", "inputs", "signature_name"], hint)
    signature = fields.get("signature_name")
    if signature not in (None, SIGNATURE):
        raise errors.DataError(
            f"signature_name: got {errors.show(signature)}, expected {SIGNATURE!r}."
        )
    rows, columns = fields.get("instances"), fields.get("inputs")
    if (rows is None) == (columns is None):
        raise errors.DataError(f"body: expected one of `instances` and `inputs`, {hint}.")
    if columns is not None:
        return to_rows(columns), True
    return _check_list("instances", rows, hint), False


def to_rows(inputs: Any) -> list[Any]:
    """Returns the instances of columns.

    Args:
        inputs: For each input a list of the values of all examples; or one such list.

    Raises:
        DataError: If a column is no list, or they have different numbers of examples.
    """
    columns = inputs if isinstance(inputs, Mapping) and inputs else {"inputs": inputs}
    sizes = {}
    for name, column in columns.items():
        if not isinstance(column, list) or not column:
            raise errors.DataError(f"{name}: got {errors.show(column)}, expected a list of values.")
        sizes[name] = len(column)
    if len(set(sizes.values())) != 1:
        raise errors.DataError(
            f"inputs: got columns of the lengths {sizes}, expected a value for each example."
        )
    if not isinstance(inputs, Mapping):
        return list(inputs)
    rows = zip(*columns.values(), strict=True)
    return [dict(zip(columns, row, strict=True)) for row in rows]


def to_columns(results: Sequence[Any]) -> Any:
    """Returns results as columns by name; of a model with one output the column alone."""
    if not all(isinstance(one, Mapping) for one in results):
        return list(results)
    return {name: [one[name] for one in results] for name in results[0]}


def _check_fields(body: Any, names: Sequence[str], hint: str) -> Mapping[str, Any]:
    if not isinstance(body, dict):
        raise errors.DataError(f"body: got {errors.show(body)}, expected a JSON object, {hint}.")
    for name in body:
        if name not in names:
            nearest = errors.suggest(name, names)
            raise errors.DataError(
                f"{errors.cut(name)}: there is no such field.{nearest} Expected a body {hint}."
            )
    return body


def _check_list(name: str, value: Any, hint: str) -> list[Any]:
    if not isinstance(value, list) or not value:
        raise errors.DataError(f"{name}: got {errors.show(value)}, expected a list, {hint}.")
    return value
