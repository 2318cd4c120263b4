"""Connections to an SQLite file, which say so when they wait for another program."""

import contextlib
import os
import pathlib
import sqlite3
import tempfile
from collections.abc import Callable, Iterator
from typing import Final

from typing_extensions import override

from quintain import errors
from quintain.store import backend, columns, database_errors, migrating, statements
from quintain.store.sqlite import sqlite_waits

_MOST_IDLE: Final = 8
"""So many connections are kept for the next who ask: a server has many threads that read at once.
The one that was used last is the first to be used again: what it read is in its memory."""


class SqliteBackend(backend.Backend):
    """An SQLite file."""

    _most_idle = _MOST_IDLE

    def __init__(self, path: str, busy_secs: float) -> None:
        self._place = path
        pathlib.Path(path).parent.mkdir(parents=True, exist_ok=True)
        self._timeout_secs = min(sqlite_waits.ATTEMPT_SECS, busy_secs)
        self._waits = sqlite_waits.Waits(path, busy_secs)
        self._idle: list[sqlite3.Connection] = []
        self._opened: os.stat_result | None = None

    @property
    @override
    def place(self) -> str:
        return self._place

    @override
    @contextlib.contextmanager
    def writing(self) -> Iterator[statements.Runner]:
        with self._transaction(is_writing=True) as connection:
            yield statements.SqliteRunner(connection)

    @override
    @contextlib.contextmanager
    def reading(self) -> Iterator[statements.Runner]:
        with self._transaction(is_writing=False) as connection:
            yield statements.SqliteRunner(connection)

    @override
    def migrate(self, rebuild: migrating.Rebuild) -> None:
        if not self.is_current():
            with self._transaction(is_writing=True) as connection:
                runner = statements.SqliteRunner(connection)
                migrating.upgrade(runner, connection.execute, _read_revision(connection), rebuild)
        self._opened = os.stat(self._place)

    def is_current(self) -> bool:
        """Returns whether the schema is up to date.

        Raises:
            StoreError: If the database can't be used, or a newer version made it.
        """
        with self._transaction(is_writing=False) as connection:
            current = _read_revision(connection)
        migrating.check_known(current, self._place)
        return current == columns.REVISION

    @override
    def check(self) -> None:
        disk_error = database_errors.find_disk_error(self._place)
        if disk_error is not None:
            raise disk_error

    @override
    def hold(self, on_loss: Callable[[str], None]) -> None:
        # The lock of the home directory, in which the file is, sees to it.
        del on_loss

    @override
    def describe_wait(self) -> str:
        return self._waits.describe()

    @override
    def close(self) -> None:
        idle, self._idle = self._idle, []
        for connection in idle:
            connection.close()

    @contextlib.contextmanager
    def _transaction(self, *, is_writing: bool) -> Iterator[sqlite3.Connection]:
        with self._explained(), self._connected() as connection:
            self._waits.begin(connection, is_writing=is_writing)
            try:
                yield connection
                connection.execute("COMMIT")
            finally:
                if connection.in_transaction:
                    with contextlib.suppress(sqlite3.Error):
                        connection.execute("ROLLBACK")

    @contextlib.contextmanager
    def _connected(self) -> Iterator[sqlite3.Connection]:
        """Gives a connection that nobody else uses meanwhile."""
        self._check_file()
        idle = self._idle
        try:
            connection = idle.pop()
        except IndexError:
            connection = self._connect()
        try:
            yield connection
        finally:
            # Others are in its place where it was closed meanwhile.
            is_usable = idle is self._idle and not connection.in_transaction
            if is_usable and len(idle) < self._most_idle:
                idle.append(connection)
            else:
                connection.close()

    def _connect(self) -> sqlite3.Connection:
        # One that is missing is made only before it was opened.
        mode = "rwc" if self._opened is None else "rw"
        connection = sqlite3.connect(
            f"{pathlib.Path(self._place).absolute().as_uri()}?mode={mode}",
            timeout=self._timeout_secs,
            check_same_thread=False,
            # This program says itself when transactions begin; the driver's rules come too late.
            isolation_level=None,
            uri=True,
        )
        try:
            self._waits.execute(connection, "PRAGMA journal_mode = WAL")
            # The files of old checkpoints are deleted after a commit, so that it has to last.
            connection.execute("PRAGMA synchronous = FULL")
            connection.execute("PRAGMA foreign_keys = ON")
        except BaseException:
            connection.close()
            raise
        return connection

    def _check_file(self) -> None:
        """Makes sure that the file at the path is the one that was opened.

        Raises:
            StoreError: If not.
        """
        if self._opened is None:
            return
        try:
            found = os.stat(self._place)
        except OSError as error:
            lost = database_errors.explain_disk(error, self._place)
            raise lost or errors.StoreError(f"{self._place}: {error.strerror}.") from error
        if not os.path.samestat(found, self._opened):
            raise errors.StoreAwayError(
                f"{self._place}: another file has taken the place of the one that was opened, as "
                "where a disk was mounted anew. End the master and start it anew to go on with it."
            )

    @contextlib.contextmanager
    def _explained(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.IntegrityError as error:
            raise database_errors.refuse(str(error), self._place) from error
        except sqlite3.Error as error:
            explained = database_errors.explain(str(error), self._place)
            if isinstance(explained, errors.StoreAwayError):
                self.close()
            raise explained from error
        except OverflowError as error:
            raise errors.ConfigError(database_errors.TOO_LARGE) from error


class SqliteReader(SqliteBackend):
    """An SQLite file that is read only, as by commands that change nothing. No connection stays."""

    _most_idle = 0

    def __init__(self, path: str) -> None:
        super().__init__(path, sqlite_waits.BUSY_SECS)

    @override
    def _connect(self) -> sqlite3.Connection:
        options = "immutable=1" if self._is_immutable() else "mode=rw"
        return sqlite3.connect(
            f"{pathlib.Path(self._place).absolute().as_uri()}?{options}",
            timeout=self._timeout_secs,
            isolation_level=None,
            uri=True,
        )

    def _is_immutable(self) -> bool:
        """Returns whether the database is on a read-only disk, and all in one file.

        SQLite can't be asked about such a one otherwise: it would make files beside it, by which
        those who read know of those who write.
        """
        directory = os.path.dirname(os.path.abspath(self._place))
        return not os.access(directory, os.W_OK) and not os.path.exists(f"{self._place}-wal")


class NoDatabase(SqliteReader):
    """Empty database, read where there is no file; nothing of it stays."""

    def __init__(self) -> None:
        self._scratch = tempfile.TemporaryDirectory(prefix="quintain-")
        path = os.path.join(self._scratch.name, "none.db")
        with contextlib.closing(SqliteBackend(path, sqlite_waits.BUSY_SECS)) as made:
            made.migrate(lambda _: None)
        super().__init__(path)

    @override
    def close(self) -> None:
        super().close()
        self._scratch.cleanup()


def _read_revision(connection: sqlite3.Connection) -> str | None:
    known = connection.execute(
        "SELECT name FROM sqlite_master WHERE name = ?", [migrating.TABLE]
    ).fetchone()
    if known is None:
        return None
    row = connection.execute(f"SELECT version_num FROM {migrating.TABLE}").fetchone()
    return None if row is None else str(row[0])
