"""A PostgreSQL database as a store uses it."""

import contextlib
import uuid
from collections.abc import Callable, Iterator

import sqlalchemy as sa
from sqlalchemy import exc, pool
from typing_extensions import override

from quintain import errors
from quintain.records.config import database_url
from quintain.store import backend, columns, failures, migrating, statements

try:
    import psycopg
except ImportError as error:
    raise errors.ConfigError(
        "database: PostgreSQL needs a package that is not installed; install it by "
        f"`pip install 'quintain[postgresql]'` ({error})."
    ) from error

from quintain.store.postgres import (
    postgres_connection,
    postgres_failures,
    postgres_pool,
    postgres_statements,
    postgres_writer,
)


class PostgresBackend(backend.Backend):
    """A database of a PostgreSQL server."""

    def __init__(self, url: database_url.DatabaseUrl, busy_secs: float) -> None:
        """Stores the address, and how long transactions wait for other programs."""
        self._place = url.place
        mark = uuid.uuid4().hex[:12]
        self._connector = postgres_connection.Connector(url, postgres_connection.build_name(mark))
        self._writer = postgres_writer.Writer(self._connector, self._place, mark, busy_secs)
        self._readers = postgres_pool.ReadingPool(self._connector, self._place)

    @property
    @override
    def place(self) -> str:
        return self._place

    @override
    @contextlib.contextmanager
    def writing(self) -> Iterator[statements.Runner]:
        with self._explained(), self._writer.transaction() as runner:
            yield runner

    @override
    @contextlib.contextmanager
    def reading(self) -> Iterator[statements.Runner]:
        with self._explained(), self._readers.reading() as connection:
            yield postgres_statements.build_runner(connection)

    @override
    def migrate(self) -> None:
        with self._explained(), contextlib.closing(self._connector.connect()) as made:
            self._connector.check(made)
        # Not that of the pool: what is read here is about to change.
        engine = sa.create_engine(
            "postgresql+psycopg://", creator=self._connect_for_sqlalchemy, poolclass=pool.NullPool
        )
        with self._explained():
            if self._is_current(engine):
                return
            with self._writer.alone():
                if self._is_current(engine):
                    return
                with engine.begin() as connection:
                    migrating.upgrade(connection)

    @override
    def hold(self, on_loss: Callable[[str], None]) -> None:
        with self._explained():
            self._writer.hold(on_loss)

    @override
    def check(self) -> None:
        """Does nothing: what the server has to say, it says in each transaction."""

    @override
    def take_up(self) -> None:
        """Does nothing: the server has its disk to itself."""

    @override
    def describe_wait(self) -> str:
        return self._writer.waits.describe()

    @override
    def close(self) -> None:
        self._writer.close()
        self._readers.close()

    def _is_current(self, engine: sa.Engine) -> bool:
        with engine.connect() as connection:
            current = migrating.read_revision(connection)
        if current != columns.REVISION:
            migrating.check_known(current, self._place)
        return current == columns.REVISION

    def _connect_for_sqlalchemy(self) -> postgres_connection.Connection:
        made = self._connector.connect()
        made.autocommit = False
        return made

    @contextlib.contextmanager
    def _explained(self) -> Iterator[None]:
        try:
            yield
        except psycopg.Error as error:
            raise postgres_failures.explain(error, self._place) from error
        except exc.DBAPIError as error:
            if not isinstance(error.orig, psycopg.Error):
                raise
            raise postgres_failures.explain(error.orig, self._place) from error
        except OverflowError as error:
            raise errors.ConfigError(failures.TOO_LARGE) from error
