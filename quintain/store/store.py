"""Opens the database, brings its schema up to date, and hands out transactions."""

import contextlib
import pathlib
import sqlite3
import threading
from collections.abc import Callable, Iterator
from typing import Final

import sqlalchemy as sa
from sqlalchemy import exc
from typing_extensions import override

from quintain import errors
from quintain.store import columns, failures, reading, session, sqlite_engine, sqlite_waits

_MIGRATIONS: Final = pathlib.Path(__file__).parent / "migrations"


class Store(reading.ReadableStore):
    """One database of experiments.

    Any number of threads may use it. Writing transactions follow one another; reading ones see the
    state at their beginning and wait for nobody.
    """

    def __init__(self, engine: sa.Engine, waits: sqlite_waits.Waits | None = None) -> None:
        """Stores the engine, whose schema has to be up to date; see `open_store`."""
        self._engine = engine
        self._waits = waits
        self._writing = threading.Lock()
        self._listeners: list[Callable[[], None]] = []

    def add_listener(self, listener: Callable[[], None]) -> None:
        """Lets a listener know of each transaction that left changes, once it is committed.

        Args:
            listener: Is called in the thread that wrote; it returns at once, and raises nothing.
        """
        self._listeners.append(listener)

    @contextlib.contextmanager
    def transaction(self) -> Iterator[session.Session]:
        """Gives a session whose writes are kept if the block ends without an exception.

        Raises:
            StoreError: If the database can't be written: another program holds it for too long,
                the disk is full, the file is damaged. Nothing is kept then.
        """
        with self._writing, self._explained(), self._engine.connect() as connection:
            options = connection.execution_options(quintain_writes=True)
            with options.begin():
                writing = session.Session(connection)
                yield writing
                has_changed = writing.write_changes()
        if has_changed:
            for listener in self._listeners:
                listener()

    @override
    @contextlib.contextmanager
    def reading(self) -> Iterator[session.Session]:
        """Gives a session to read with.

        Raises:
            StoreError: If the database can't be read.
        """
        with self._explained(), self._engine.connect() as connection, connection.begin():
            yield session.Session(connection)

    def describe_wait(self) -> str:
        """Returns which program a transaction waits for now, or an empty text if none waits."""
        return "" if self._waits is None else self._waits.describe()

    @override
    def close(self) -> None:
        """Closes all connections."""
        self._engine.dispose()

    @contextlib.contextmanager
    def _explained(self) -> Iterator[None]:
        try:
            yield
        except exc.DBAPIError as error:
            raise _explain(error.orig, self._engine.url) from error
        except sqlite3.Error as error:
            raise _explain(error, self._engine.url) from error
        except OverflowError as error:
            raise errors.ConfigError("got a number of more than 64 bits; there is none.") from error


def open_store(
    url_or_path: str | pathlib.Path, *, busy_secs: float = sqlite_waits.BUSY_SECS
) -> Store:
    """Opens a database, making it and bringing its schema up to date where needed.

    Args:
        url_or_path: The path of an SQLite file, whatever characters it has; or, as a text with
            `://`, an SQLAlchemy URL. Missing directories are made.
        busy_secs: How long to wait for another program that writes.

    Raises:
        StoreError: If the database can't be opened, or a newer version of this package made it.
    """
    url = _to_url(url_or_path)
    waits = None
    if url.get_backend_name() == "sqlite":
        if url.database:
            pathlib.Path(url.database).parent.mkdir(parents=True, exist_ok=True)
        engine, waits = sqlite_engine.create(url, busy_secs)
    else:
        engine = sa.create_engine(url)
    try:
        _migrate(engine)
    except exc.DBAPIError as error:
        engine.dispose()
        raise _explain(error.orig, url) from error
    except errors.StoreError:
        engine.dispose()
        raise
    return Store(engine, waits)


def _to_url(url_or_path: str | pathlib.Path) -> sa.URL:
    if isinstance(url_or_path, str) and "://" in url_or_path:
        return sa.make_url(url_or_path)
    # Not by a text: `?`, `#` and `%41` in a path would mean something else there.
    return sa.URL.create("sqlite", database=str(pathlib.Path(url_or_path).absolute()))


def _read_revision(engine: sa.Engine) -> str | None:
    """Returns the revision of the database's schema, or None if it has none yet."""
    table = sa.table("alembic_version", sa.column("version_num"))
    with engine.connect() as connection, connection.begin():
        if not sa.inspect(connection).has_table(table.name):
            return None
        found = connection.scalar(sa.select(table.c.version_num))
    return None if found is None else str(found)


def _migrate(engine: sa.Engine) -> None:
    current = _read_revision(engine)
    if current == columns.REVISION:
        return
    # They take as long as everything else that shows an experiment, and are hardly ever needed.
    import alembic.command  # noqa: PLC0415
    import alembic.config  # noqa: PLC0415
    import alembic.script  # noqa: PLC0415

    config = alembic.config.Config()
    # `%` has a meaning in such a file.
    config.set_main_option("script_location", str(_MIGRATIONS).replace("%", "%%"))
    script = alembic.script.ScriptDirectory.from_config(config)
    known = {revision.revision for revision in script.walk_revisions()}
    if current is not None and current not in known:
        raise errors.StoreError(
            f"{engine.url.render_as_string()}: a newer version of this package made this database "
            f"(its schema is {current}, the newest known one {script.get_current_head()}). "
            "Upgrade the package, or use another home directory."
        )
    with engine.connect() as connection:
        writing = connection.execution_options(quintain_writes=True)
        with writing.begin():
            config.attributes["connection"] = writing
            alembic.command.upgrade(config, "head")


def _explain(error: BaseException | None, url: sa.URL) -> errors.StoreError:
    place = url.database if url.get_backend_name() == "sqlite" else url.render_as_string()
    return failures.explain(str(error), str(place))
