"""Prepared statements of a session, and their execution.

They go through the database's driver.
"""

import abc
import functools
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from typing_extensions import override

from quintain.store import columns, schema

NOT_A_NUMBER: Final = "NaN"
"""How SQLite keeps it, which takes the number for NULL; texts sort behind numbers."""

Values = Mapping[str, Any]


class Runner(abc.ABC):
    """Runs statements in the transaction of a connection."""

    is_sqlite: bool
    """Whether the database is SQLite."""

    error_type: type[Exception]
    """What is raised by texts that are damaged, and by databases that can't be used."""

    @abc.abstractmethod
    def run(self, query: str, values: Values, /) -> Any:
        """Runs one with values for its `:names`; the answer gives rows and has a `rowcount`."""

    @abc.abstractmethod
    def run_all(self, query: str, rows: Sequence[Values], /) -> None:
        """Runs one for each of several values."""

    @abc.abstractmethod
    def insert(self, table: str, row: Values, key: str) -> Any:
        """Inserts a row, with the next number if it has no `id`; returns the value of a column."""

    @abc.abstractmethod
    def insert_all(self, table: str, rows: Sequence[Values]) -> None:
        """Inserts rows of the same columns into a table, with numbers in their order."""

    @abc.abstractmethod
    def stream(self, query: str) -> Iterator[Sequence[Any]]:
        """Runs a query whose rows may be too many for the memory."""

    @abc.abstractmethod
    def set_last_id(self, table: str, number: int) -> None:
        """Makes a table's next row get a larger number than this one."""


class SqliteRunner(Runner):
    """Runs statements in the transaction of a connection to an SQLite file."""

    is_sqlite = True
    error_type = sqlite3.OperationalError

    def __init__(self, raw: sqlite3.Connection) -> None:
        self._raw = raw

    @override
    def run(self, query: str, values: Values, /) -> Any:
        return self._raw.execute(query, values)

    @override
    def run_all(self, query: str, rows: Sequence[Values], /) -> None:
        self._raw.executemany(query, rows)

    @override
    def insert(self, table: str, row: Values, key: str) -> Any:
        ((value,),) = self._raw.execute(f"{insert(table, tuple(row))} RETURNING {key}", row)
        return value

    @override
    def insert_all(self, table: str, rows: Sequence[Values]) -> None:
        if rows:
            self._raw.executemany(insert(table, tuple(rows[0])), rows)

    @override
    def stream(self, query: str) -> Iterator[Sequence[Any]]:
        return self._raw.execute(query)

    @override
    def set_last_id(self, table: str, number: int) -> None:
        values = {"table": table, "number": number}
        known = self._raw.execute(
            "SELECT seq FROM sqlite_sequence WHERE name = :table", values
        ).fetchone()
        if known is not None:
            change = "UPDATE sqlite_sequence SET seq = max(seq, :number) WHERE name = :table"
            self._raw.execute(change, values)
        elif schema.list_tables()[table].is_autoincrement:
            new = "INSERT INTO sqlite_sequence (name, seq) VALUES (:table, :number)"
            self._raw.execute(new, values)


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
    return f"UPDATE {columns.TABLES[kind.__name__]} SET {changed} WHERE {key} = :{key}"


@functools.cache
def find_keys(kind: Any) -> tuple[str, ...]:
    """Returns the columns that tell records of a kind from each other."""
    return schema.list_tables()[columns.TABLES[kind.__name__]].keys


def _insert_record(kind: Any) -> str:
    return insert(columns.TABLES[kind.__name__], columns.list_names(kind))
