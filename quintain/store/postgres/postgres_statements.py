"""Execution of statements in PostgreSQL, and ids of its rows.

Numbers are given by the transaction that inserts, from the table `last_ids`, not by sequences: so
a transaction that fails leaves no gap, readers know the newest number of their moment, and rows
that come with their numbers, such as copied ones, are counted. Writers follow one another.
"""

import functools
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import psycopg
from psycopg import sql
from typing_extensions import override

from quintain.store import schema, statements

_PLACE: Final = re.compile(r"(?<![:\w]):([a-zA-Z_]\w*)")
_MOST: Final = 2**63
_FEW_ROWS: Final = 5
"""So few rows are as quick to insert one by one as to copy."""


class Numbers:
    """The last numbers of tables, as one transaction knows them.

    Beside them a writer counts its own transactions. If a connection is lost while one of them
    ends, this tells whether it was kept: the server's own numbers of transactions are given again
    after a crash.

    Args:
        last_ids: Numbers by table, and by writer.
        writer: The name under which this one counts.
    """

    def __init__(self, last_ids: Mapping[str, int], writer: str) -> None:
        self._last_ids = dict(last_ids)
        self._writer = writer
        self._count = self._last_ids.get(writer, 0) + 1
        self._given: set[str] = set()

    def add(self, table: str, row: Mapping[str, Any]) -> Mapping[str, Any]:
        """Returns a row with its number, which is the next one unless it has one."""
        last = self._last_ids.get(table, 0)
        number = row.get("id")
        if number is None:
            number = last + 1
            row = {"id": number, **row}
        if number > last:
            self._last_ids[table] = number
            self._given.add(table)
        return row

    def note_write(self) -> None:
        """Notes that the transaction changes something."""
        self._last_ids[self._writer] = self._count
        self._given.add(self._writer)

    def build_update(self) -> str:
        """Returns what stores the numbers that were given, or an empty text if none was."""
        if not self._given:
            return ""
        values = ", ".join(f"('{name}', {self._last_ids[name]})" for name in sorted(self._given))
        return (
            f"INSERT INTO last_ids (table_name, last_id) VALUES {values} "
            "ON CONFLICT (table_name) DO UPDATE SET last_id = excluded.last_id"
        )

    def is_in(self, last_ids: Mapping[str, int]) -> bool:
        """Returns whether this transaction, or one without changes, is among those kept."""
        return not self._given or last_ids.get(self._writer) == self._count


class PostgresRunner(statements.Runner):
    """Runs statements in the transaction of a connection.

    Args:
        raw: The connection.
        numbers: Gives numbers to rows; without it, none can be inserted that needs one.
    """

    is_sqlite = False
    error_type = psycopg.Error

    def __init__(self, raw: "psycopg.Connection[Any]", numbers: Numbers | None = None) -> None:
        self._raw = raw
        self._numbers = numbers

    @override
    def run(self, query: str, values: statements.Values, /) -> Any:
        _check_numbers(values)
        if not query.startswith("SELECT"):
            self._note_write()
        return self._raw.execute(_translate(query), values)

    @override
    def run_all(self, query: str, rows: Sequence[statements.Values], /) -> None:
        for row in rows:
            _check_numbers(row)
        self._note_write()
        with self._raw.cursor() as cursor:
            cursor.executemany(_translate(query), rows)

    @override
    def insert(self, table: str, row: statements.Values, key: str) -> Any:
        row = self._number(table, row)
        self.run(statements.insert(table, tuple(row)), row)
        return row[key]

    @override
    def insert_all(self, table: str, rows: Sequence[statements.Values]) -> None:
        rows = [self._number(table, row) for row in rows]
        if len(rows) <= _FEW_ROWS:
            for row in rows:
                self.run(statements.insert(table, tuple(row)), row)
            return
        self._note_write()
        with self._raw.cursor() as cursor, cursor.copy(_copy(table, tuple(rows[0]))) as copying:
            for row in rows:
                _check_numbers(row)
                copying.write_row(tuple(row.values()))

    @override
    def stream(self, query: str) -> Iterator[Sequence[Any]]:
        with self._raw.cursor(name="stream") as cursor:
            yield from cursor.execute(_translate(query), {})

    @override
    def set_last_id(self, table: str, number: int) -> None:
        self._note_write()
        self._number(table, {"id": number})

    def _number(self, table: str, row: statements.Values) -> statements.Values:
        if not _has_id(table):
            return row
        assert self._numbers is not None, "only a writing transaction gives numbers"
        return self._numbers.add(table, row)

    def _note_write(self) -> None:
        if self._numbers is not None:
            self._numbers.note_write()


@functools.cache
def _has_id(table: str) -> bool:
    return "id" in schema.list_tables()[table].columns


@functools.lru_cache(maxsize=1024)
def _translate(query: str) -> bytes:
    """Returns a statement with places for values as psycopg has them."""
    return _PLACE.sub(r"%(\1)s", query.replace("%", "%%")).encode()


@functools.cache
def _copy(table: str, names: tuple[str, ...]) -> sql.Composed:
    listed = sql.SQL(", ").join(map(sql.Identifier, names))
    return sql.SQL("COPY {} ({}) FROM STDIN").format(sql.Identifier(table), listed)


def _check_numbers(values: statements.Values) -> None:
    """Refuses numbers that no column holds, with the error that SQLite's driver has for it.

    Raises:
        OverflowError: If one has more than 64 bits.
    """
    for value in values.values():
        if type(value) is int and not -_MOST <= value < _MOST:
            raise OverflowError("a number has more than 64 bits")
