"""Connections to an SQLite file, which say so when they wait for another program."""

import contextlib
import pathlib
import sqlite3
from collections.abc import Callable, Iterator
from typing import Any

import sqlalchemy as sa
from sqlalchemy import exc, pool
from typing_extensions import override

from quintain import errors
from quintain.store import backend, columns, failures, migrating, sqlite_waits, statements


class SqliteBackend(backend.Backend):
    """An SQLite file."""

    def __init__(self, url: sa.URL, busy_secs: float) -> None:
        """Stores the file, whose directory is made, and how long transactions wait for others."""
        self._place = str(url.database)
        if url.database:
            pathlib.Path(url.database).parent.mkdir(parents=True, exist_ok=True)
        self._engine, self._waits = _create(url, busy_secs)

    @property
    @override
    def place(self) -> str:
        return self._place

    @override
    @contextlib.contextmanager
    def writing(self) -> Iterator[statements.Runner]:
        with self._explained(), self._engine.connect() as connection:
            options = connection.execution_options(quintain_writes=True)
            with options.begin():
                yield _find_runner(connection)

    @override
    @contextlib.contextmanager
    def reading(self) -> Iterator[statements.Runner]:
        with self._explained(), self._engine.connect() as connection, connection.begin():
            yield _find_runner(connection)

    @override
    def migrate(self) -> None:
        with self._explained():
            with self._engine.connect() as connection, connection.begin():
                current = migrating.read_revision(connection)
            if current == columns.REVISION:
                return
            migrating.check_known(current, self._place)
            with self._engine.connect() as connection:
                writing = connection.execution_options(quintain_writes=True)
                with writing.begin():
                    migrating.upgrade(writing)

    @override
    def hold(self, on_loss: Callable[[str], None]) -> None:
        # The lock of the home directory, in which the file is, sees to it.
        del on_loss

    @override
    def describe_wait(self) -> str:
        return self._waits.describe()

    @override
    def close(self) -> None:
        self._engine.dispose()

    @contextlib.contextmanager
    def _explained(self) -> Iterator[None]:
        try:
            yield
        except (exc.IntegrityError, sqlite3.IntegrityError) as error:
            raise failures.refuse(str(error), self._place) from error
        except exc.DBAPIError as error:
            raise failures.explain(str(error.orig), self._place) from error
        except sqlite3.Error as error:
            raise failures.explain(str(error), self._place) from error
        except OverflowError as error:
            raise errors.ConfigError(failures.TOO_LARGE) from error


def _find_runner(connection: sa.Connection) -> statements.Runner:
    raw = connection.connection.dbapi_connection
    assert isinstance(raw, sqlite3.Connection)
    return statements.for_sqlite(raw)


def _create(url: sa.URL, busy_secs: float) -> tuple[sa.Engine, sqlite_waits.Waits]:
    """Returns the engine of an SQLite file, and who waits for it."""
    waits = sqlite_waits.Waits(str(url.database), busy_secs)
    engine = sa.create_engine(
        url,
        # A server has many threads that read at once.
        poolclass=pool.QueuePool,
        pool_size=8,
        max_overflow=64,
        # The one that was used last has what it read in its memory; others need not have it, too.
        pool_use_lifo=True,
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
