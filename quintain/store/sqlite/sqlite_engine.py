"""Connections to an SQLite file, which say so when they wait for another program.

Its disk may be lost and come back. So connections are used only as long as the file at the path is
the one that was opened, and all are made anew after an error of the disk.
"""

import contextlib
import os
import pathlib
import sqlite3
from collections.abc import Callable, Iterator
from typing import Any

import sqlalchemy as sa
from sqlalchemy import exc, pool
from typing_extensions import override

from quintain import errors
from quintain.store import backend, columns, failures, migrating, statements
from quintain.store.sqlite import sqlite_waits


class SqliteBackend(backend.Backend):
    """An SQLite file."""

    def __init__(self, url: sa.URL, busy_secs: float) -> None:
        """Stores the file, whose directory is made, and how long transactions wait for others."""
        self._place = str(url.database)
        pathlib.Path(self._place).parent.mkdir(parents=True, exist_ok=True)
        self._file = _File(self._place)
        self._engine, self._waits = _create(self._file, busy_secs)
        self._was_lost = False

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
            if current != columns.REVISION:
                migrating.check_known(current, self._place)
                with self._engine.connect() as connection:
                    writing = connection.execution_options(quintain_writes=True)
                    with writing.begin():
                        migrating.upgrade(writing)
            self._file.note()

    @override
    def check(self) -> None:
        fault = failures.find_fault(self._place)
        if fault is not None:
            raise fault

    @override
    def take_up(self) -> None:
        if not self._file.is_noted():
            self._file.note()
            self._engine.dispose()

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
            raise self._explain(str(error.orig)) from error
        except sqlite3.Error as error:
            raise self._explain(str(error)) from error
        except OverflowError as error:
            raise errors.ConfigError(failures.TOO_LARGE) from error

    def _explain(self, said: str) -> errors.StoreError:
        error = failures.explain(said, self._place)
        if isinstance(error, errors.StoreAwayError):
            self._was_lost = True
        elif failures.is_damage(said) and self._was_lost:
            # What was opened while the disk was lost does not read what is there now.
            self._was_lost = False
            error = errors.StoreAwayError(
                f"{self._place}: the database said {said!r} after its disk was lost; it is opened "
                "anew."
            )
        if isinstance(error, errors.StoreAwayError):
            self._engine.dispose()
        return error


class _File:
    """The file of a database: which one it is, so that no other one is taken for it."""

    def __init__(self, path: str) -> None:
        self.path = path
        self._noted: os.stat_result | None = None

    def note(self) -> None:
        """Notes which file is at the path, from now on.

        Raises:
            StoreError: If there is none, or another one was noted before.
        """
        self.is_noted()
        self._noted = self._find()

    def is_noted(self) -> bool:
        """Returns whether the file at the path is on the disk on which it was noted, if it was.

        Raises:
            StoreError: If there is none, or it is another file.
        """
        if self._noted is None:
            return True
        found = self._find()
        if found.st_ino != self._noted.st_ino:
            raise errors.StoreAwayError(  # It may come back, be it by mounting its disk.
                f"{self.path}: another file has taken the place of the one that was opened. Put "
                "that one back, or end the master and start it anew to go on with this one."
            )
        return os.path.samestat(found, self._noted)

    def check(self) -> None:
        """Makes sure that the file at the path is the one that was noted, if one was.

        Raises:
            StoreError: If not.
        """
        if not self.is_noted():
            raise errors.StoreAwayError(
                f"{self.path}: its disk was mounted anew. It goes on when this is found to be that "
                "of its master."
            )

    def connect(self, timeout_secs: float) -> sqlite3.Connection:
        """Returns a connection; a file that is missing is made only before one was noted."""
        self.check()
        mode = "rwc" if self._noted is None else "rw"
        return sqlite3.connect(
            f"{pathlib.Path(self.path).absolute().as_uri()}?mode={mode}",
            timeout=timeout_secs,
            check_same_thread=False,
            uri=True,
        )

    def _find(self) -> os.stat_result:
        try:
            return os.stat(self.path)
        except OSError as error:
            lost = failures.explain_disk(error, self.path)
            raise lost or errors.StoreError(f"{self.path}: {error.strerror}.") from error


def _find_runner(connection: sa.Connection) -> statements.Runner:
    raw = connection.connection.dbapi_connection
    assert isinstance(raw, sqlite3.Connection)
    return statements.for_sqlite(raw)


def _create(file: _File, busy_secs: float) -> tuple[sa.Engine, sqlite_waits.Waits]:
    """Returns the engine of an SQLite file, and who waits for it."""
    waits = sqlite_waits.Waits(file.path, busy_secs)
    timeout_secs = min(sqlite_waits.ATTEMPT_SECS, busy_secs)
    engine = sa.create_engine(
        "sqlite://",
        creator=lambda: file.connect(timeout_secs),
        # A server has many threads that read at once.
        poolclass=pool.QueuePool,
        pool_size=8,
        max_overflow=64,
        # The one that was used last has what it read in its memory; others need not have it, too.
        pool_use_lifo=True,
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

    @sa.event.listens_for(engine, "checkout")
    def _check(connection: Any, record: Any, proxy: Any) -> None:
        del connection, record, proxy
        file.check()

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
