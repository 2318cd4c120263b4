"""Tables in memory: cells by column, with the file and the line of each row."""

import bisect
import csv
import dataclasses
import gzip
import importlib
import io
import logging
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Final

from quintain import errors
from quintain.files import file_io
from quintain.input import input_files
from quintain.tabular import flats, table_configs

Cell = str | float | None
"""Text, a number where the file has types, or None if there is no value."""

_PARQUET: Final = ".parquet"

_logger = logging.getLogger(__name__)


@dataclasses.dataclass
class Table:
    """Rows of one or several files."""

    names: list[str]
    """Names of the columns."""

    columns: dict[str, list[Cell]] = dataclasses.field(default_factory=dict)
    """Cells by the names of columns."""

    files: list[str] = dataclasses.field(default_factory=list)
    starts: list[int] = dataclasses.field(default_factory=list)
    lines: list[int] = dataclasses.field(default_factory=list)

    def __post_init__(self) -> None:
        self.columns = self.columns or {name: [] for name in self.names}

    def __len__(self) -> int:
        return len(self.lines)

    def where(self, row: int) -> str:
        """Returns file and line of a row, counted from 0."""
        file = self.files[bisect.bisect_right(self.starts, row) - 1]
        return f"{file}:{self.lines[row]}"


def read(params: table_configs.TableDataConfig, missing_values: Sequence[str]) -> Table:
    """Reads all rows that a config names.

    Raises:
        ConfigError: If it names no files, or Parquet without the package for it.
        DataError: If a file is missing or damaged; it names the line.
    """
    path = params.input_path
    if isinstance(path, str) and path.startswith(flats.PREFIX):
        paths = [path]
    else:
        paths = input_files.match_files(path)
    missing = frozenset(missing_values)
    table: Table | None = None
    num_skipped = 0
    for one in paths:
        rows = _read_rows(one, params)
        header = [str(name).strip() for name in next(rows, (1, []))[1]]
        _check_header(one, header, params.delimiter)
        table = table or Table(header)
        if sorted(header) != sorted(table.names):
            raise errors.DataError(
                f"{one}:1: the columns differ from those of {paths[0]}. Give all files the same "
                "columns."
            )
        table.files.append(one)
        table.starts.append(len(table))
        cells = [table.columns[name] for name in header]
        for line, row in rows:
            if len(row) != len(header):
                if params.corrupt_records != "skip":
                    raise errors.DataError(
                        f"{one}:{line}: got {len(row)} cells, expected {len(header)} as in the "
                        "header. Mend or remove the line, or set corrupt_records=skip."
                    )
                num_skipped += 1
                continue
            table.lines.append(line)
            for column, cell in zip(cells, row, strict=True):
                cell = cell.strip() if isinstance(cell, str) else cell
                column.append(None if cell in missing or cell != cell else cell)
    if table is None or not len(table):
        raise errors.DataError(f"{paths[0]}: there are no rows in it. Check the path.")
    if num_skipped:
        _logger.warning(
            "%s: %d rows are left out, which have too few or too many cells.", paths[0], num_skipped
        )
    return table


def _read_rows(
    path: str, params: table_configs.TableDataConfig
) -> Iterator[tuple[int, Sequence[Any]]]:
    """Yields the lines of a file with their numbers from 1; the first has the names of columns."""
    if path.startswith(flats.PREFIX):
        yield from enumerate(flats.draw(path), start=1)
        return
    stem = path.lower().removesuffix(".gz")
    if stem.endswith(_PARQUET):
        yield from _read_parquet(path)
        return
    delimiter = "\t" if stem.endswith(".tsv") else params.delimiter
    reader = csv.reader(io.StringIO(_read_text(path), newline=""), delimiter=delimiter)
    try:
        for row in reader:
            if row:
                yield reader.line_num, row
    except csv.Error as error:
        raise errors.DataError(f"{path}:{reader.line_num}: is no CSV ({error}).") from error


def _read_text(path: str) -> str:
    try:
        data = file_io.read_bytes(path)
        data = gzip.decompress(data) if path.lower().endswith(".gz") else data
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = error.object[: error.start].count(b"\n") + 1
        raise errors.DataError(
            f"{path}:{line}: byte {error.object[error.start]:#04x} is not UTF-8. Convert the file "
            "to UTF-8."
        ) from error
    except (OSError, EOFError, zlib.error) as error:
        raise errors.DataError(f"{path}: can't be read ({error}).") from error


def _read_parquet(path: str) -> Iterator[tuple[int, Sequence[Any]]]:
    try:
        parquet = importlib.import_module("pyarrow.parquet")
    except ImportError as error:
        raise errors.ConfigError(
            f"input_path: got {path!r}, but the package pyarrow can't be imported ({error}). "
            'Install it with `pip install "quintain[parquet]"`.'
        ) from error
    try:
        table = parquet.read_table(io.BytesIO(file_io.read_bytes(path)))
    except (OSError, ValueError) as error:
        raise errors.DataError(f"{path}: is no Parquet file ({error}).") from error
    yield 1, table.column_names
    columns = [map(_to_cell, column.to_pylist()) for column in table.columns]
    yield from enumerate(zip(*columns, strict=True), start=1)


def _to_cell(value: Any) -> Cell:
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, int | float) and not isinstance(value, bool):
        return float(value)
    return str(value)


def _check_header(path: str, header: Sequence[str], delimiter: str) -> None:
    if len(header) == 1 and any(other in header[0] for other in ";,\t|" if other != delimiter):
        raise errors.DataError(
            f"{path}:1: got the one column {header[0]!r}. Set delimiter to the character between "
            "the cells."
        )
    for name in header:
        if not name or header.count(name) > 1:
            raise errors.DataError(
                f"{path}:1: the name {name!r} of a column is empty, or there twice. Give each "
                "column a name of its own."
            )


def parse_numbers(cells: Iterable[Cell], refuse: Callable[[int, Cell], Exception]) -> list[float]:
    """Returns cells as numbers, NaN where there is no value.

    Args:
        cells: The cells.
        refuse: Makes the error for a cell that is no finite number, from its row.
    """
    numbers = []
    for row, cell in enumerate(cells):
        number = float("nan") if cell is None else to_number(cell)
        if number is None:
            raise refuse(row, cell)
        numbers.append(number)
    return numbers


def to_number(cell: Cell) -> float | None:
    """Returns a cell as a finite number, or None if it is none."""
    try:
        number = float(cell)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        return None
    is_plain = not (isinstance(cell, str) and "_" in cell)
    return number if is_plain and abs(number) < 3.4e38 else None


def to_text(cell: Cell) -> str | None:
    """Returns a cell as a category: whole numbers without a point."""
    if isinstance(cell, float):
        return str(int(cell)) if cell.is_integer() else repr(cell)
    return cell
