"""Copy of all rows from one store to another, of any kind of database."""

import itertools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

from quintain import errors
from quintain.store import columns, schema, statements
from quintain.store import store as store_lib

_NUM_ROWS: Final = 2000
_KEPT_BY_THE_TARGET: Final = frozenset({"last_ids", "holder"})

Tell = Callable[[str, int, int], None]
"""Takes a table, how many of its rows are copied, and how many there are."""


def copy(
    source: store_lib.Store, target: store_lib.Store, tell: Tell = lambda *_: None
) -> dict[str, int]:
    """Copies all rows, in one transaction of the target, and returns how many of each table.

    The target is held meanwhile, so that no master changes it where it is the database of a server.

    Args:
        source: What to copy, as it is at one moment; its caller holds it.
        target: Where to.
        tell: Is told how far it is.

    Raises:
        StateError: If the target is not empty; it stays as it is.
        StoreError: If a database refuses, or a master has it; the target stays as it is.
    """
    target.hold(lambda _: None)
    tables = [table for table in schema.list_tables() if table not in _KEPT_BY_THE_TARGET]
    with source.database.reading() as reading, target.database.writing() as writing:
        filled = {table: _count(writing, table) for table in tables}
        if any(filled.values()):
            found = ", ".join(f"{count:,} {name}" for name, count in filled.items() if count)
            raise errors.StateError(
                f"{target.place}: got a database with {found}, expected an empty one, so that "
                "nothing is mixed up. Name another database; a file may be moved away."
            )
        counts = {table: _count(reading, table) for table in tables}
        for table in tables:
            _copy_table(table, counts[table], reading, writing, tell)
        _copy_numbers(reading, writing)
        for table in tables:
            count = _count(writing, table)
            if count != counts[table]:
                raise errors.StoreError(
                    f"{target.place}: {count:,} rows of {table} arrived, but {source.place} "
                    f"has {counts[table]:,}. Nothing was kept."
                )
    return counts


def _copy_table(
    table: str,
    total: int,
    reading: statements.Runner,
    writing: statements.Runner,
    tell: Tell,
) -> None:
    keys, kinds, _ = schema.list_tables()[table]
    listed = ", ".join(f'"{name}"' for name in kinds)
    order = ", ".join(f'"{name}"' for name in keys)
    readers = {name: _find_reader(kinds[name], is_sqlite=writing.is_sqlite) for name in kinds}
    rows = reading.stream(f"SELECT {listed} FROM {table} ORDER BY {order}")
    done = 0
    tell(table, done, total)
    for some in _batch(rows):
        converted = [
            {
                name: value if value is None else readers[name](value)
                for name, value in zip(readers, row, strict=True)
            }
            for row in some
        ]
        writing.insert_all(table, converted)
        done += len(converted)
        tell(table, done, total)


def _batch(rows: Iterator[Sequence[Any]]) -> Iterator[list[Sequence[Any]]]:
    while some := list(itertools.islice(rows, _NUM_ROWS)):
        yield some


def _find_reader(kind: type[Any], *, is_sqlite: bool) -> Callable[[Any], Any]:
    """Returns what turns a value of a column into one that the target takes.

    Args:
        kind: The type of the column's values.
        is_sqlite: Whether the target is SQLite.
    """
    if kind is float and is_sqlite:
        return _to_sqlite_number
    return columns.to_text if kind is str else kind


def _to_sqlite_number(value: Any) -> Any:
    number = float(value)
    return statements.NOT_A_NUMBER if math.isnan(number) else number


def _count(runner: statements.Runner, table: str) -> int:
    ((count,),) = runner.run(f"SELECT count(*) FROM {table}", {})
    return int(count)


def _copy_numbers(reading: statements.Runner, writing: statements.Runner) -> None:
    """Makes the target go on with numbers after all that the source ever gave."""
    numbered = {name for name, table in schema.list_tables().items() if "id" in table.columns}
    name, last = ("name", "seq") if reading.is_sqlite else ("table_name", "last_id")
    origin = "sqlite_sequence" if reading.is_sqlite else "last_ids"
    found: Mapping[str, int] = dict(reading.run(f"SELECT {name}, {last} FROM {origin}", {}))
    for table in sorted(numbered & set(found)):
        writing.set_last_id(table, int(found[table]))
