"""Requests in columns, as TensorFlow Serving has them, from and to rows."""

from collections.abc import Mapping, Sequence
from typing import Any

from quintain import errors


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
