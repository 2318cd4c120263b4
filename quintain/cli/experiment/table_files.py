"""Tables as files: CSV, lines of JSON, Parquet."""

import importlib
import itertools
import json
import pathlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

from quintain import errors
from quintain.files import csv_files
from quintain.records.rows import codec

Columns = Mapping[str, type] | Sequence[str]
"""Names of the columns, with the types of their values where these are known before the rows."""

Rows = Iterable[Mapping[str, Any]]
_NUM_ROWS: Final = 100_000
"""Rows of a row group of a Parquet file."""


def check(kind: str) -> None:
    """Checks that a kind of file can be written here.

    Raises:
        ConfigError: If a package is missing.
    """
    if kind == "parquet":
        _import_pyarrow()


def write(path: pathlib.Path, kind: str, rows: Rows, columns: Columns) -> int:
    """Writes a table, and returns how many rows it has.

    Args:
        path: The file without its suffix.
        kind: One of `KINDS`.
        rows: Values by the names of the columns; None where there is none.
        columns: The columns.
    """
    return KINDS[kind](path.with_name(f"{path.name}.{kind}"), rows, columns)


def _write_csv(path: pathlib.Path, rows: Rows, columns: Columns) -> int:
    with path.open("w", encoding="utf-8", errors="backslashreplace", newline="") as file:
        return csv_files.write(file, columns, ([row[name] for name in columns] for row in rows))


def _write_jsonl(path: pathlib.Path, rows: Rows, columns: Columns) -> int:
    with path.open("w", encoding="utf-8") as file:
        plain = (codec.to_plain({name: row[name] for name in columns}) for row in rows)
        return sum(1 for one in plain if file.write(json.dumps(one, allow_nan=False) + "\n"))


def _write_parquet(path: pathlib.Path, rows: Rows, columns: Columns) -> int:
    pyarrow = _import_pyarrow()
    parquet = importlib.import_module("pyarrow.parquet")

    if not isinstance(columns, Mapping):
        # What is in the columns follows from all rows.
        table = pyarrow.table(_to_arrays(pyarrow, list(rows), columns))
        parquet.write_table(table, path)
        return int(table.num_rows)
    types = {int: pyarrow.int64(), float: pyarrow.float64(), str: pyarrow.string()}
    schema = pyarrow.schema([(name, types[kind]) for name, kind in columns.items()])
    count = 0
    remaining = iter(rows)
    with parquet.ParquetWriter(path, schema) as writer:
        while part := list(itertools.islice(remaining, _NUM_ROWS)):
            clean = [{name: _to_utf8(row[name]) for name in columns} for row in part]
            writer.write_table(pyarrow.Table.from_pylist(clean, schema=schema))
            count += len(part)
    return count


def _to_arrays(pyarrow: Any, rows: Sequence[Mapping[str, Any]], names: Iterable[str]) -> Any:
    """Returns the values of columns; those of a column of several kinds as JSON."""
    arrays = {}
    for name in names:
        values = [_to_utf8(row[name]) for row in rows]
        try:
            arrays[name] = pyarrow.array(values)
        except (pyarrow.ArrowInvalid, pyarrow.ArrowTypeError):
            texts = [None if one is None else json.dumps(one) for one in values]
            arrays[name] = pyarrow.array(texts)
    return arrays


def _to_utf8(value: Any) -> Any:
    return value.encode("utf-8", "backslashreplace").decode() if isinstance(value, str) else value


def _import_pyarrow() -> Any:
    try:
        return importlib.import_module("pyarrow")
    except ImportError as error:
        raise errors.ConfigError(
            "--format=parquet: needs pyarrow, which is not installed; "
            "`pip install 'quintain[parquet]'`."
        ) from error


KINDS: Final[dict[str, Callable[[pathlib.Path, Rows, Columns], int]]] = {
    "csv": _write_csv,
    "jsonl": _write_jsonl,
    "parquet": _write_parquet,
}
"""What writes each kind of file."""
