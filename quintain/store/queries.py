"""Queries for records of any kind, as SQL text for the drivers of SQLite and PostgreSQL."""

from collections.abc import Collection, Mapping
from typing import Any, TypeVar

from quintain import errors
from quintain.store import columns, statements

R = TypeVar("R")


class Queries:
    """Asks a database for records."""

    def __init__(self, runner: statements.Runner) -> None:
        self._runner = runner
        self._select = runner.run
        self._is_sqlite = runner.is_sqlite
        self._damage = (ValueError, TypeError, AttributeError, KeyError, runner.error_type)

    def _list(
        self, kind: type[R], where: "Where", order: str, instead: Mapping[str, str] | None = None
    ) -> list[R]:
        """Returns records; `instead` has what is read in place of columns."""
        names = (*columns.list_names(kind), *columns.DERIVED.get(kind.__name__, {}))
        fields = columns.select(kind, names, instead)
        query = f"SELECT {fields} FROM {columns.TABLES[kind.__name__]} {where} {order}"
        return [columns.to_record(kind, row) for row in self._select(query, where.values)]

    def _get(self, kind: type[R], key: str, value: Any) -> R:
        found = self._list(kind, Where(**{key: value}), "")
        if not found:
            raise self._missing(kind, key, value)
        return found[0]

    def _find_value(self, query: str, values: Mapping[str, Any] | None = None) -> Any:
        """Returns the first value of the first row, or None if there is no row."""
        return next((row[0] for row in self._select(query, values or {})), None)

    def _find_last_id(self, table: str) -> int:
        """Returns the largest number that a row has, or ever had."""
        known = self._find_value(f"SELECT max(id) FROM {table}") or 0
        query = "SELECT last_id FROM last_ids WHERE table_name = :table"
        if self._is_sqlite:
            query = "SELECT seq FROM sqlite_sequence WHERE name = :table"
        return int(max(known, self._find_value(query, {"table": table}) or 0))

    def _check_damage(self, error: Exception) -> None:
        """Raises an error again that is about the database, not about the value that was read."""
        if isinstance(error, self._runner.error_type) and "decode to UTF-8" not in str(error):
            raise error

    def _missing(self, kind: type[Any], key: str, value: Any) -> errors.NotFoundError:
        table = columns.TABLES[kind.__name__]
        if isinstance(value, str):
            query = f"SELECT {key} FROM {table} WHERE substr({key}, 1, 4) = :start LIMIT 3"
            start = columns.to_text(value[:4]) or "-"
            near = [row[0] for row in self._select(query, {"start": start})]
            hint = f"similar ones: {', '.join(near)}" if near else "no UUID begins like it"
        else:
            newest = self._find_value(f"SELECT max({key}) FROM {table}")
            hint = f"the newest is {newest}" if newest else "there are none yet"
        return errors.NotFoundError(f"There is no {table.removesuffix('s')} {value}; {hint}.")


class Where:
    """The conditions of a query, with their values.

    Args:
        **equal: What columns must be equal to; None for anything.
    """

    def __init__(self, **equal: Any) -> None:
        self.values: dict[str, Any] = {}
        self._conditions: list[str] = []
        for name, value in equal.items():
            if value is not None:
                self.add(f'"{name}" = :{name}', **{name: value})

    def add(self, condition: str, **values: Any) -> None:
        """Adds a condition."""
        self._conditions.append(condition)
        for name, value in values.items():
            self.values[name] = columns.to_column(value)

    def add_any(self, name: str, allowed: Collection[str]) -> None:
        """Adds that a column is one of some texts, if there are any."""
        if allowed:
            values = {f"{name}{number}": text for number, text in enumerate(allowed)}
            self.add(f'"{name}" IN ({", ".join(f":{key}" for key in values)})', **values)

    def add_like(self, name: str, patterns: Collection[str], *, is_sqlite: bool) -> None:
        """Adds that a column is like one of some patterns in any case, if there are any."""
        if patterns:
            values = {f"{name}_like{number}": text for number, text in enumerate(patterns)}
            # Those of SQLite are of any case by themselves.
            like = "LIKE" if is_sqlite else "ILIKE"
            self.add(f"({' OR '.join(f'{name} {like} :{key}' for key in values)})", **values)

    def __str__(self) -> str:
        return f"WHERE {' AND '.join(self._conditions)}" if self._conditions else ""
