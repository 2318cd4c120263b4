"""Types of columns, found in the training data and kept in the run's directory.

Shapes:
    N  rows
    A  columns of numbers
    K  columns of categories
"""

import collections
import dataclasses
import keyword
import logging
import re
from typing import Any, Final, Literal

import numpy as np

from quintain import errors
from quintain.tabular import table_configs, tables

FILE_NAME: Final = "columns.json"
"""File of a run's directory."""

MISSING: Final = 0
"""Id of a category that is missing."""

UNKNOWN: Final = 1
"""Id of a category that training did not see, or too seldom."""

FIRST: Final = 2
"""Id of the first known category."""

_MOST_CLASSES: Final = 20
_MOSTLY: Final = 0.9

_logger = logging.getLogger(__name__)


@dataclasses.dataclass(frozen=True)
class Column:
    """A column, as the model takes it."""

    name: str
    kind: Literal["number", "category"]
    has_missing: bool = False
    """Whether training saw rows without a value."""

    mean: float = 0.0
    deviation: float = 1.0
    values: tuple[str, ...] = ()
    """Known categories, the most frequent ones first; of the target in their order."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "values", tuple(self.values))


@dataclasses.dataclass(frozen=True)
class Columns:
    """The target and what it is predicted from."""

    target: Column
    inputs: tuple[Column, ...]
    left_out: dict[str, str]
    """Reasons by the names of columns that tell nothing."""

    @classmethod
    def from_dict(cls, plain: dict[str, Any]) -> "Columns":
        """Returns what `dataclasses.asdict` made plain data of."""
        inputs = tuple(Column(**column) for column in plain["inputs"])
        return cls(Column(**plain["target"]), inputs, plain["left_out"])

    @property
    def numbers(self) -> list[Column]:
        """Inputs that are numbers."""
        return [column for column in self.inputs if column.kind == "number"]

    @property
    def categories(self) -> list[Column]:
        """Inputs that are categories."""
        return [column for column in self.inputs if column.kind == "category"]

    def name_inputs(self) -> dict[str, str]:
        """Returns names for a signature, which has letters, digits and underscores, by column."""
        names: dict[str, str] = {}
        for column in self.inputs:
            name = re.sub(r"[^0-9A-Za-z_]", "_", column.name)
            if not name[0].isalpha() or keyword.iskeyword(name):
                name = f"column_{name}"
            while name in names.values():
                name += "_"
            names[column.name] = name
        return names


def find(config: table_configs.TabularConfig) -> Columns:
    """Reads the training data, and finds out what its columns are.

    Raises:
        ConfigError: If a column that the config names does not exist.
        DataError: If a cell is no number where one has to be, or nothing tells the target.
    """
    table = tables.read(config.train_data, config.missing_values)
    _check_names(config, table)
    target = _find_target(config, table)
    inputs: list[Column] = []
    left_out: dict[str, str] = {}
    for name in table.names:
        if name == config.target or name in config.ignored:
            continue
        column = _find_column(config, table, name)
        if isinstance(column, Column):
            inputs.append(column)
        else:
            left_out[name] = column
            _logger.warning("The column %r is left out: %s", name, column)
    if not inputs:
        raise errors.DataError(
            f"{table.files[0]}: no column is left that could tell {config.target!r}."
        )
    return Columns(target, tuple(inputs), left_out)


def convert(columns: Columns, table: tables.Table) -> dict[str, np.ndarray]:
    """Returns the rows of a table as the model takes them.

    Returns:
        `numbers` `[N, A]` float32, NaN where there is no value; `categories` `[N, K]` int32; and
        `target` `[N]`, float32 or int32.

    Raises:
        DataError: If a column is missing or unknown, or a cell does not fit; with file and line.
    """
    known = [column.name for column in (*columns.inputs, columns.target)]
    for name in known:
        if name not in table.columns:
            raise errors.DataError(
                f"{table.files[0]}:1: there is no column {name!r}, only "
                f"{errors.enumerate_some(table.names)}.{errors.suggest(name, table.names)}"
            )
    arrays: dict[str, np.ndarray] = {}
    if columns.numbers:
        found = [_to_numbers(table, column.name) for column in columns.numbers]
        arrays["numbers"] = np.stack(found, axis=1)  # [N, A]
    if columns.categories:
        ids = [_to_ids(table, column) for column in columns.categories]
        arrays["categories"] = np.stack(ids, axis=1)  # [N, K]
    arrays["target"] = _to_target(table, columns.target)
    return arrays


def _check_names(config: table_configs.TabularConfig, table: tables.Table) -> None:
    known = table.names
    if not config.target:
        raise errors.ConfigError(
            f"task.target: got '', expected the column to predict, one of "
            f"{errors.enumerate_some(known)}."
        )
    given = {"target": [config.target]}
    given |= {field: getattr(config, field) for field in ("numbers", "categories", "ignored")}
    for field, names in given.items():
        for name in names:
            if name not in known:
                raise errors.ConfigError(
                    f"task.{field}: got {name!r}, but {table.files[0]} has no such column, only "
                    f"{errors.enumerate_some(known)}.{errors.suggest(name, known)}"
                )


def _find_target(config: table_configs.TabularConfig, table: tables.Table) -> Column:
    name = config.target
    _require_values(table, name)
    cells = table.columns[name]
    numbers = [tables.to_number(cell) for cell in cells]
    is_numeric = None not in numbers
    kind = config.kind
    if kind == "auto":
        is_whole = is_numeric and all(float(number or 0).is_integer() for number in numbers)
        has_few = len(set(cells)) <= _MOST_CLASSES
        kind = "classification" if not is_numeric or (is_whole and has_few) else "regression"
    if kind == "regression":
        array = _to_numbers(table, name)
        if not np.ptp(array):
            raise errors.DataError(
                f"{table.files[0]}: the target {name!r} is {array[0]:g} in all rows, so that "
                "there is nothing to learn."
            )
        return Column(name, "number", mean=float(array.mean()), deviation=float(array.std()))
    texts = {str(tables.to_text(cell)) for cell in cells}
    if len(texts) < 2 or len(texts) > config.max_categories:
        raise errors.DataError(
            f"{table.files[0]}: the target {name!r} has {len(texts):,} different values, expected "
            f"2 to {config.max_categories:,} classes. Set task.kind=regression to predict a number."
        )
    key: Any = (lambda text: float(text)) if is_numeric else None
    return Column(name, "category", values=tuple(sorted(texts, key=key)))


def _find_column(
    config: table_configs.TabularConfig, table: tables.Table, name: str
) -> Column | str:
    """Returns a column, or why it is left out."""
    cells = table.columns[name]
    filled = [cell for cell in cells if cell is not None]
    if not filled:
        return "it has no value in any row."
    has_missing = len(filled) < len(cells)
    is_number = name in config.numbers
    if not is_number and name not in config.categories:
        num_numbers = sum(tables.to_number(cell) is not None for cell in filled)
        is_number = num_numbers == len(filled)
        if not is_number and num_numbers > _MOSTLY * len(filled):
            row = next(
                row
                for row, cell in enumerate(cells)
                if cell is not None and tables.to_number(cell) is None
            )
            raise errors.DataError(
                f"{table.where(row)}: {name}: got {cells[row]!r}, but nearly all others are "
                "numbers. Mend it, add it to task.missing_values, or add the column to "
                "task.categories."
            )
    if len(set(filled)) == 1 and not has_missing:
        return f"it is {filled[0]!r} in all rows."
    if is_number:
        array = _to_numbers(table, name)
        deviation = float(np.nanstd(array.astype(np.float64))) or 1.0
        mean = float(np.nanmean(array.astype(np.float64)))
        return Column(name, "number", has_missing, mean=mean, deviation=deviation)
    counts = collections.Counter(str(tables.to_text(cell)) for cell in filled)
    if max(counts.values()) == 1 and len(counts) > _MOST_CLASSES:
        return "no text in it is there twice, so that it tells rows apart and no more."
    most = sorted(counts, key=lambda text: (-counts[text], text))[: config.max_categories]
    return Column(name, "category", has_missing, values=tuple(most))


def _require_values(table: tables.Table, name: str) -> None:
    for row, cell in enumerate(table.columns[name]):
        if cell is None:
            raise errors.DataError(
                f"{table.where(row)}: {name}: there is no value of the target. Fill it in, or "
                "remove the row."
            )


def _to_numbers(table: tables.Table, name: str) -> np.ndarray:
    def refuse(row: int, cell: tables.Cell) -> Exception:
        return errors.DataError(
            f"{table.where(row)}: {name}: got {cell!r}, expected a number. Mend it, or add it to "
            "task.missing_values."
        )

    return np.array(tables.parse_numbers(table.columns[name], refuse), np.float32)


def _to_ids(table: tables.Table, column: Column) -> np.ndarray:
    ids = {value: place for place, value in enumerate(column.values, start=FIRST)}
    return np.array(
        [
            MISSING if cell is None else ids.get(str(tables.to_text(cell)), UNKNOWN)
            for cell in table.columns[column.name]
        ],
        np.int32,
    )


def _to_target(table: tables.Table, column: Column) -> np.ndarray:
    _require_values(table, column.name)
    if column.kind == "number":
        return _to_numbers(table, column.name)
    ids = {value: place for place, value in enumerate(column.values)}
    found = []
    for row, cell in enumerate(table.columns[column.name]):
        text = str(tables.to_text(cell))
        if text not in ids:
            raise errors.DataError(
                f"{table.where(row)}: {column.name}: got {text!r}, expected one of the classes of "
                f"the training data, {errors.enumerate_some(list(ids))}."
                f"{errors.suggest(text, ids)}"
            )
        found.append(ids[text])
    return np.array(found, np.int32)
