"""Advisory locks of a PostgreSQL server: one master, and one writer at a time.

They are of the schema in which the tables are. The server lets go of them with the connection.
"""

import time
from typing import Any, Final

from quintain import errors
from quintain.records.config import database_url
from quintain.store import schema
from quintain.store.postgres import postgres_connection

WRITING: Final = 0x5175_696E
"""Held by the transaction that writes."""

_MASTER: Final = WRITING + 1
"""Held by the connection of the master; by who brings the schema up to date, as well."""

_OBJECT: Final = "hashtext(coalesce(current_schema(), ''))"
_POLL_SECS: Final = 0.05
_OWN_SECS: Final = 10.0
"""How long the server may take to end a former connection of this program."""

_HOLDERS: Final = f"""
SELECT activity.pid, activity.application_name, host(activity.client_addr)
FROM pg_locks JOIN pg_stat_activity AS activity USING (pid)
WHERE locktype = 'advisory' AND granted AND classid = %s AND objsubid = 2
    AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
    AND objid = (({_OBJECT})::bigint & 4294967295)::oid
"""
_REFUSED_TABLES: Final = """
SELECT string_agg(name, ', ') FROM unnest(%s::text[]) AS name
WHERE to_regclass(name) IS NOT NULL
    AND NOT (has_table_privilege(name, 'SELECT') AND has_table_privilege(name, 'INSERT')
        AND has_table_privilege(name, 'UPDATE') AND has_table_privilege(name, 'DELETE'))
"""


class LostError(errors.StoreError):
    """Another master has the database."""


def build_try(function: str, kind: int) -> str:
    """Returns an expression that takes a lock if it is free, and says whether it has.

    Args:
        function: The server's function for it.
        kind: `WRITING`, or another lock.
    """
    return f"{function}({kind}, {_OBJECT})"


class Locks:
    """Takes the lock of a master for one program."""

    def __init__(self, place: str, mark: str) -> None:
        self._place = place
        self._mark = mark

    def hold(self, connection: postgres_connection.Connection) -> None:
        """Makes this program the master.

        Raises:
            StoreError: If another one is, or this user may not write.
        """
        self._lock(connection)
        self._check_rights(connection)
        with connection.transaction():
            connection.execute("DELETE FROM holder")
            connection.execute("INSERT INTO holder (mark) VALUES (%s)", [self._mark])
            # What former writers have noted of their transactions.
            connection.execute("DELETE FROM last_ids WHERE starts_with(table_name, 'by ')")

    def hold_again(self, connection: postgres_connection.Connection) -> None:
        """Makes sure that this program is still the master, after its connection was lost.

        Raises:
            LostError: If another one is, or was meanwhile.
        """
        self._lock(connection)
        row = connection.execute("SELECT mark FROM holder").fetchone()
        if row is None or row[0] != self._mark:
            raise LostError(
                f"{self._place}: another master had the database while this one could not reach "
                "it. This one ends without writing anything; its trials' processes are left."
            )

    def lock_alone(self, connection: postgres_connection.Connection, busy_secs: float) -> None:
        """Waits until nobody else has the lock of masters, and takes it.

        Raises:
            StoreError: If somebody has it for longer.
        """
        deadline = time.monotonic() + busy_secs
        while not self._try(connection):
            if time.monotonic() > deadline:
                raise self._refuse(connection)
            time.sleep(_POLL_SECS)

    def describe_holder(self, connection: postgres_connection.Connection, kind: int) -> str:
        """Returns words for who has a lock."""
        found = self._find_holder(connection, kind)
        if found is None:
            return "another program"
        return postgres_connection.describe_name(found[1] or "", found[2])

    def _lock(self, connection: postgres_connection.Connection) -> None:
        deadline = time.monotonic() + _OWN_SECS
        while not self._try(connection):
            holder = self._find_holder(connection, _MASTER)
            # The server may not know yet that a former connection of this program is gone.
            if holder is not None and f" {self._mark} " not in f" {holder[1]} ":
                raise self._refuse(connection)
            if time.monotonic() > deadline:
                raise self._refuse(connection)
            if holder is not None:
                connection.execute("SELECT pg_terminate_backend(%s)", [holder[0]])
            time.sleep(_POLL_SECS)

    def _try(self, connection: postgres_connection.Connection) -> bool:
        row = connection.execute(f"SELECT {build_try('pg_try_advisory_lock', _MASTER)}").fetchone()
        return bool(row and row[0])

    def _find_holder(
        self, connection: postgres_connection.Connection, kind: int
    ) -> tuple[Any, ...] | None:
        return connection.execute(_HOLDERS, [kind]).fetchone()

    def _refuse(self, connection: postgres_connection.Connection) -> LostError:
        holder = self.describe_holder(connection, _MASTER)
        return LostError(
            f"{self._place}: a master already uses this database ({holder}). A database is of one "
            "home directory, which has one master: use that one, end it, or name another database "
            f"({database_url.EXAMPLE})."
        )

    def _check_rights(self, connection: postgres_connection.Connection) -> None:
        names = list(schema.list_tables())
        row = connection.execute(_REFUSED_TABLES, [names]).fetchone()
        if row and row[0]:
            raise errors.StoreError(
                f"{self._place}: this user may not read and write the tables {row[0]}. Make it the "
                "owner of them, or grant it SELECT, INSERT, UPDATE and DELETE."
            )
