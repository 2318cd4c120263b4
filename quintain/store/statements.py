"""Prepared statements of a session, and their execution.

They go through the database's driver.
"""

import dataclasses
import functools
import sqlite3
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

from quintain.store import columns, schema

NOT_A_NUMBER: Final = "NaN"
"""How SQLite keeps it, which takes the number for NULL; texts sort behind numbers."""

Values = Mapping[str, Any]


@dataclasses.dataclass(frozen=True)
class Runner:
    """Runs statements in the transaction of a connection."""

    run: Callable[[str, Values], Any]
    """Runs one with values for its `:names`; what it returns gives rows and has a `rowcount`."""

    run_all: Callable[[str, Sequence[Values]], Any]
    """Runs one for each of several values."""

    insert: Callable[[str, Values, str], Any]
    """Inserts a row into a table, with the next number if it has no `id`; returns its key, whose
    column is named last."""

    insert_all: Callable[[str, Sequence[Values]], Any]
    """Inserts rows of the same columns into a table, with numbers in their order."""

    stream: Callable[[str], Iterator[Sequence[Any]]]
    """Runs a query whose rows may be too many for the memory."""

    set_last_id: Callable[[str, int], None]
    """Makes a table's next row get a larger number than this one."""

    is_sqlite: bool
    """Whether the database is SQLite."""

    failure: type[Exception]
    """What is raised by texts that are damaged, and by databases that can't be used."""


def for_sqlite(raw: sqlite3.Connection) -> Runner:
    """Returns what runs statements in the transaction of a connection to an SQLite file."""

    def insert_row(table: str, row: Values, key: str) -> Any:
        ((value,),) = raw.execute(f"{insert(table, tuple(row))} RETURNING {key}", row)
        return value

    def insert_all(table: str, rows: Sequence[Values]) -> None:
        if rows:
            raw.executemany(insert(table, tuple(rows[0])), rows)

    def set_last_id(table: str, number: int) -> None:
        values = {"table": table, "number": number}
        known = raw.execute(
            "SELECT seq FROM sqlite_sequence WHERE name = :table", values
        ).fetchone()
        if known is not None:
            change = "UPDATE sqlite_sequence SET seq = max(seq, :number) WHERE name = :table"
            raw.execute(change, values)
        elif schema.TABLES[table].is_autoincrement:
            raw.execute("INSERT INTO sqlite_sequence (name, seq) VALUES (:table, :number)", values)

    return Runner(
        run=raw.execute,
        run_all=raw.executemany,
        insert=insert_row,
        insert_all=insert_all,
        stream=raw.execute,
        set_last_id=set_last_id,
        is_sqlite=True,
        failure=sqlite3.OperationalError,
    )


@functools.cache
def insert(table: str, names: tuple[str, ...]) -> str:
    """Returns what inserts a row with values for some columns."""
    columns_text = ", ".join(f'"{name}"' for name in names)
    values = ", ".join(f":{name}" for name in names)
    return f"INSERT INTO {table} ({columns_text}) VALUES ({values})"


@functools.cache
def save(kind: Any) -> str:
    """Returns what inserts a record, or replaces the one of the same key."""
    keys = find_keys(kind)
    changed = ", ".join(
        f'"{name}" = excluded."{name}"' for name in columns.list_names(kind) if name not in keys
    )
    conflict = ", ".join(f'"{key}"' for key in keys)
    return f"{_insert_record(kind)} ON CONFLICT ({conflict}) DO UPDATE SET {changed}"


@functools.cache
def add_new(kind: Any) -> str:
    """Returns what inserts a record unless there is one of the same key."""
    return f"{_insert_record(kind)} ON CONFLICT DO NOTHING"


@functools.cache
def update(kind: Any, kept: tuple[str, ...] = ()) -> str:
    """Returns what replaces the record of the same key, but for the columns that are kept."""
    (key,) = find_keys(kind)
    names = [name for name in columns.list_names(kind) if name != key and name not in kept]
    changed = ", ".join(f'"{name}" = :{name}' for name in names)
    return f"UPDATE {columns.TABLES[kind]} SET {changed} WHERE {key} = :{key}"


@functools.cache
def find_keys(kind: Any) -> tuple[str, ...]:
    """Returns the columns that tell records of a kind from each other."""
    return schema.TABLES[columns.TABLES[kind]].keys


def _insert_record(kind: Any) -> str:
    return insert(columns.TABLES[kind], columns.list_names(kind))
