"""Connections to an SQLite file, which say so when they wait for another program."""

import sqlite3
from typing import Any

import sqlalchemy as sa
from sqlalchemy import pool

from quintain.store import sqlite_waits


def create(url: sa.URL, busy_secs: float) -> tuple[sa.Engine, sqlite_waits.Waits]:
    """Returns the engine of an SQLite file, and who waits for it.

    Args:
        url: The file.
        busy_secs: How long a transaction waits for another program.
    """
    waits = sqlite_waits.Waits(str(url.database), busy_secs)
    engine = sa.create_engine(
        url,
        # A server has many threads that read at once.
        poolclass=pool.QueuePool,
        pool_size=8,
        max_overflow=64,
        connect_args={
            "timeout": min(sqlite_waits.ATTEMPT_SECS, busy_secs),
            "check_same_thread": False,
        },
    )

    @sa.event.listens_for(engine, "connect")
    def _set_up(connection: Any, record: Any) -> None:
        del record
        # This program says itself when transactions begin; the driver's own rules come too late.
        connection.isolation_level = None
        waits.execute(connection, "PRAGMA journal_mode = WAL")
        # The files of old checkpoints are deleted after a commit, so that it has to last.
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute("PRAGMA foreign_keys = ON")

    @sa.event.listens_for(engine, "begin")
    def _begin(connection: sa.Connection) -> None:
        raw = connection.connection.dbapi_connection
        assert isinstance(raw, sqlite3.Connection)
        is_writing = connection.get_execution_options().get("quintain_writes", False)
        try:
            waits.begin(raw, is_writing=is_writing)
        except sqlite3.OperationalError as error:
            raise sa.exc.OperationalError("BEGIN", None, error) from error

    return engine, waits
