"""Reports of waiting for another program's lock of an SQLite file."""

import contextlib
import logging
import sqlite3
import threading
import time
from collections.abc import Iterator
from typing import Final

from quintain.store import lock_holders

logger = logging.getLogger(__name__)

BUSY_SECS: Final = 30.0
"""How long a transaction waits for another program that writes."""

ATTEMPT_SECS: Final = 0.5
"""How long SQLite tries to get a lock before it is asked again, and the wait becomes known."""

_SILENT_SECS: Final = 1.0
"""A wait that is over so soon is worth no word."""


class Waits:
    """Waiting for the lock of a database, with reports. Any thread may ask."""

    def __init__(self, database: str, busy_secs: float) -> None:
        self._database = database
        self._busy_secs = busy_secs
        self._starts: dict[int, float] = {}

    def describe(self) -> str:
        """Returns for whom a transaction waits now, and since when; empty if none does."""
        starts = list(self._starts.values())
        if not starts:
            return ""
        secs = time.monotonic() - min(starts)
        holder = lock_holders.describe(self._database)
        return f"{self._database}: the database is locked by {holder}; waiting for {secs:.0f} s."

    def begin(self, connection: sqlite3.Connection, *, is_writing: bool) -> None:
        """Begins a transaction, however long another program holds the lock that it needs.

        Raises:
            sqlite3.OperationalError: If it was held for longer than the transaction waits.
        """
        # A reader's lock is taken by its first look, which must not be one that nobody repeats.
        statements = ("BEGIN IMMEDIATE",) if is_writing else ("BEGIN", "PRAGMA user_version")
        self.execute(connection, *statements)

    def execute(self, connection: sqlite3.Connection, *statements: str) -> None:
        """Runs statements which need a lock, however long another program holds it.

        Raises:
            sqlite3.OperationalError: If it was held for longer than the transaction waits.
        """
        with self._waiting() as start:
            is_told = False
            while True:
                try:
                    for statement in statements:
                        connection.execute(statement)
                except sqlite3.OperationalError as error:
                    with contextlib.suppress(sqlite3.OperationalError):
                        connection.execute("ROLLBACK")
                    if "locked" not in str(error) and "busy" not in str(error):
                        raise
                    secs = time.monotonic() - start
                    if secs >= self._busy_secs:
                        raise
                    self._starts[threading.get_ident()] = start
                    if secs >= _SILENT_SECS and not is_told:
                        is_told = True
                        logger.warning("%s", self.describe())
                else:
                    if is_told:
                        logger.warning("%s: the database is free again.", self._database)
                    return

    @contextlib.contextmanager
    def _waiting(self) -> Iterator[float]:
        try:
            yield time.monotonic()
        finally:
            self._starts.pop(threading.get_ident(), None)
