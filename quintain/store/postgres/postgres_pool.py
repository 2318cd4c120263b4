"""Connection pool for readers of a PostgreSQL server."""

import contextlib
import threading
from collections.abc import Iterator
from typing import Final

import psycopg

from quintain import errors
from quintain.store.postgres import postgres_connection, postgres_errors

_BEGIN: Final = "BEGIN ISOLATION LEVEL REPEATABLE READ, READ ONLY; SELECT 1"
"""The moment of all that is read is that of the first query."""

_MOST_OPEN: Final = 20
_MOST_IDLE: Final = 5
_WAIT_SECS: Final = 30.0


class ReadingPool:
    """Gives a connection, in a transaction that sees one moment, to each who reads."""

    def __init__(self, connector: postgres_connection.Connector, place: str) -> None:
        self._connector = connector
        self._place = place
        self._idle: list[postgres_connection.Connection] = []
        self._lock = threading.Lock()
        self._free = threading.BoundedSemaphore(_MOST_OPEN)

    @contextlib.contextmanager
    def reading(self) -> Iterator[postgres_connection.Connection]:
        """Gives a connection.

        Raises:
            psycopg.Error: If the server is away, or refuses.
            StoreError: If too many read, for too long.
        """
        if not self._free.acquire(timeout=_WAIT_SECS):
            raise errors.StoreError(
                f"{self._place}: {_MOST_OPEN} others read, and none has ended for {_WAIT_SECS:g} s."
            )
        try:
            connection = self._begin()
            try:
                yield connection
            finally:
                self._give_back(connection)
        finally:
            self._free.release()

    def close(self) -> None:
        """Closes those that nobody uses."""
        with self._lock:
            idle, self._idle = self._idle, []
        for connection in idle:
            connection.close()

    def _begin(self) -> postgres_connection.Connection:
        with self._lock:
            kept = self._idle.pop() if self._idle else None
        if kept is not None:
            try:
                kept.execute(_BEGIN, prepare=False)
            except psycopg.Error as error:
                kept.close()
                if not postgres_errors.is_away(error):
                    raise
                self.close()  # The server was away: the others are lost as well.
            else:
                return kept
        connection = self._connector.connect()
        try:
            connection.execute(_BEGIN, prepare=False)
        except BaseException:
            connection.close()
            raise
        return connection

    def _give_back(self, connection: postgres_connection.Connection) -> None:
        try:
            connection.rollback()
        except psycopg.Error:
            connection.close()
            return
        with self._lock:
            is_kept = len(self._idle) < _MOST_IDLE
            if is_kept:
                self._idle.append(connection)
        if not is_kept:
            connection.close()
