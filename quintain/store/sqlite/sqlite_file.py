"""Read-only SQLite file, read through the standard library."""

import contextlib
import importlib
import os
import pathlib
import sqlite3
import tempfile
from collections.abc import Iterator

from typing_extensions import override

from quintain import errors
from quintain.store import columns, failures, migrating, reading
from quintain.store.sqlite import sqlite_waits


class SqliteFile(reading.ReadableStore):
    """A database whose schema is up to date, as commands read it that change nothing."""

    def __init__(self, path: pathlib.Path) -> None:
        self._path = path
        self._waits = sqlite_waits.Waits(str(path), sqlite_waits.BUSY_SECS)

    @override
    @contextlib.contextmanager
    def reading(self) -> Iterator[reading.Reader]:
        with _connected(self._path) as connection:
            self._waits.begin(connection, is_writing=False)
            yield reading.Reader(
                connection.execute, is_sqlite=True, failure=sqlite3.OperationalError
            )

    @override
    def close(self) -> None:
        """Does nothing: connections last as long as what is read."""


class NoFile(SqliteFile):
    """Empty database, read where there is no file; nothing of it stays."""

    def __init__(self) -> None:
        """Makes it in the directory for temporary files."""
        self._scratch = tempfile.TemporaryDirectory(prefix="quintain-")
        path = pathlib.Path(self._scratch.name, "none.db")
        _bring_up_to_date(path)
        super().__init__(path)

    @override
    def close(self) -> None:
        self._scratch.cleanup()


def open_to_read(path: pathlib.Path) -> SqliteFile:
    """Opens a database to read from; its schema is brought up to date where needed.

    One that is not there is not made: its disk may not be mounted. It is read as an empty one.

    Raises:
        StoreError: If the database can't be opened, or a newer version of this package made it.
    """
    if not path.exists():
        return NoFile()
    if not _is_current(path):
        _bring_up_to_date(path)
    return SqliteFile(path)


def _bring_up_to_date(path: pathlib.Path) -> None:
    # What writes is above what reads.
    importlib.import_module("quintain.store.store").open_store(path).close()


@contextlib.contextmanager
def _connected(path: pathlib.Path) -> Iterator[sqlite3.Connection]:
    """Gives a connection, and explains what goes wrong with it.

    Raises:
        StoreError: If the database can't be read.
    """
    try:
        with contextlib.closing(_connect(path)) as connection:
            yield connection
    except sqlite3.Error as error:
        raise failures.explain(str(error), str(path)) from error
    except OverflowError as error:
        raise errors.ConfigError(failures.TOO_LARGE) from error


def _connect(path: pathlib.Path) -> sqlite3.Connection:
    where, is_url = str(path), False
    if path.is_file() and _is_fixed(path):
        where, is_url = f"{path.absolute().as_uri()}?immutable=1", True
    return sqlite3.connect(
        where, timeout=sqlite_waits.ATTEMPT_SECS, isolation_level=None, uri=is_url
    )


def _is_fixed(path: pathlib.Path) -> bool:
    """Returns whether a database is immutable: on a read-only disk, and all in one file.

    SQLite can't be asked about such a one otherwise: it would make files beside it, by which those
    who read know of those who write.
    """
    return not os.access(path.parent, os.W_OK) and not os.path.exists(f"{path}-wal")


def _is_current(path: pathlib.Path) -> bool:
    if not path.is_file():
        return False
    with _connected(path) as connection, contextlib.suppress(sqlite3.Error):
        row = connection.execute(f"SELECT version_num FROM {migrating.TABLE}").fetchone()
        return bool(row == (columns.REVISION,))
    return False
