"""Store of experiments: opens the database, migrates it and hands out transactions."""

import contextlib
import pathlib
import threading
import time
from collections.abc import Callable, Iterator
from typing import Final

from quintain.records.config import database_url
from quintain.store import backend, session, statements
from quintain.store.sqlite import sqlite_backend, sqlite_waits

_SQLITE: Final = "sqlite:///"


class Store:
    """One database of experiments.

    Any number of threads may use it. Writing transactions follow one another; reading ones see the
    state at their beginning and wait for nobody.

    Attributes:
        database: What is behind it.
    """

    def __init__(self, database: backend.Backend) -> None:
        self.database = database
        self._writing = threading.Lock()
        self._listeners: list[Callable[[], None]] = []
        self._timers: list[Callable[[float], None]] = []

    @property
    def place(self) -> str:
        """The file, or the address without its password."""
        return self.database.place

    def add_listener(self, listener: Callable[[], None]) -> None:
        """Lets a listener know of each transaction that left changes, once it is committed.

        Args:
            listener: Is called in the thread that wrote; it returns at once, and raises nothing.
        """
        self._listeners.append(listener)

    def add_timer(self, timer: Callable[[float], None]) -> None:
        """Tells somebody the seconds of each writing transaction, with its wait for others.

        Args:
            timer: Is called in the thread that wrote, also if nothing was kept; it returns at once,
                and raises nothing.
        """
        self._timers.append(timer)

    def hold(self, on_loss: Callable[[str], None]) -> None:
        """Makes this the only master of the database until it is closed.

        An SQLite file needs nothing: the lock of its home directory sees to it.

        Args:
            on_loss: Is told, from any thread, why it is not any more: then nothing can be written.

        Raises:
            StoreError: If another one is.
        """
        self.database.hold(on_loss)

    @contextlib.contextmanager
    def transaction(self) -> Iterator[session.Session]:
        """Gives a session whose writes are kept if the block ends without an exception.

        Raises:
            StoreError: If the database can't be written: another program holds it for too long,
                the disk is full, the file is damaged, the server is away. Nothing is kept then.
            DataError: If it can be, but not with what was given to it.
        """
        begin = time.monotonic()
        try:
            with self._writing, self.database.writing() as runner:
                writing = session.Session(runner)
                yield writing
                has_changed = writing.write_changes()
        finally:
            secs = time.monotonic() - begin
            for timer in self._timers:
                timer(secs)
        if has_changed:
            for listener in self._listeners:
                listener()

    @contextlib.contextmanager
    def reading(self) -> Iterator[session.Session]:
        """Gives a session to read with.

        Raises:
            StoreError: If the database can't be read.
        """
        with self.database.reading() as runner:
            yield session.Session(runner)

    def check(self) -> None:
        """Finds out whether the database can be written to.

        Raises:
            StoreError: If not.
        """
        self.database.check()
        with self.transaction():
            pass

    def describe_wait(self) -> str:
        """Returns what transactions wait for now, or an empty text if none waits."""
        return self.database.describe_wait()

    def close(self) -> None:
        """Closes all connections."""
        self.database.close()


def open_store(
    url_or_path: str | pathlib.Path, *, busy_secs: float = sqlite_waits.BUSY_SECS
) -> Store:
    """Opens a database, making it and bringing its schema up to date where needed.

    Args:
        url_or_path: The path of an SQLite file, whatever characters it has, whose missing
            directories are made; or, as a text with `://`, the address of a PostgreSQL database
            that is there, as `records.config.database_url` has it, or `sqlite:///PATH`.
        busy_secs: How long to wait for another program that writes.

    Raises:
        StoreError: If the database can't be opened, or a newer version of this package made it.
        ConfigError: If there is no such kind of database, or what it needs is not installed.
    """
    database = _connect(url_or_path, busy_secs)
    try:
        database.migrate(_rebuild_curves)
    except BaseException:
        database.close()
        raise
    return Store(database)


def open_to_read(url_or_path: str | pathlib.Path) -> Store:
    """Opens a database to read from; its schema is brought up to date where needed.

    A file that is not there is not made: its disk may not be mounted. It is read as an empty one.

    Args:
        url_or_path: As `open_store` takes it.

    Raises:
        StoreError: If the database can't be opened, or a newer version of this package made it.
    """
    if isinstance(url_or_path, str):
        return open_store(url_or_path)
    if not url_or_path.exists():
        return Store(sqlite_backend.NoDatabase())
    database = sqlite_backend.SqliteReader(str(url_or_path))
    if not database.is_current():
        open_store(url_or_path).close()
    return Store(database)


def _connect(url_or_path: str | pathlib.Path, busy_secs: float) -> backend.Backend:
    if not isinstance(url_or_path, str) or not database_url.is_url(url_or_path):
        # Not by a text: `?`, `#` and `%41` in a path would mean something else there.
        return sqlite_backend.SqliteBackend(str(pathlib.Path(url_or_path).absolute()), busy_secs)
    if url_or_path.startswith(_SQLITE):
        return sqlite_backend.SqliteBackend(url_or_path.removeprefix(_SQLITE), busy_secs)
    parsed = database_url.parse(url_or_path)
    from quintain.store.postgres import postgres_backend  # noqa: PLC0415 - most databases are files

    return postgres_backend.PostgresBackend(parsed, busy_secs)


def _rebuild_curves(runner: statements.Runner) -> None:
    writing = session.Session(runner)
    # One trial at a time, so that memory holds the metrics of one.
    for (trial_id,) in list(runner.run("SELECT id FROM trials", {})):
        writing.rebuild_curves(trial_id)
