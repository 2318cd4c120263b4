"""A PostgreSQL database as a store uses it."""

import contextlib
import uuid
from collections.abc import Callable, Iterator

from typing_extensions import override

from quintain import errors
from quintain.records.config import database_url
from quintain.store import backend, columns, database_errors, migrating, statements

try:
    import psycopg
except ImportError as error:
    raise errors.ConfigError(
        "database: PostgreSQL needs a package that is not installed; install it by "
        f"`pip install 'quintain[postgresql]'` ({error})."
    ) from error

from quintain.store.postgres import (
    postgres_connection,
    postgres_errors,
    postgres_pool,
    postgres_statements,
    postgres_writer,
)


class PostgresBackend(backend.Backend):
    """A database of a PostgreSQL server."""

    def __init__(self, url: database_url.DatabaseUrl, busy_secs: float) -> None:
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
            yield postgres_statements.PostgresRunner(connection)

    @override
    def migrate(self, rebuild: migrating.Rebuild) -> None:
        with self._explained(), contextlib.closing(self._connector.connect()) as made:
            self._connector.check(made)
            if self._read_revision(made) == columns.REVISION:
                return
            with self._writer.alone(), made.transaction():
                current = self._read_revision(made)
                if current != columns.REVISION:
                    runner = postgres_statements.PostgresRunner(made)
                    migrating.upgrade(
                        runner, lambda text: made.execute(text.encode()), current, rebuild
                    )

    @override
    def hold(self, on_loss: Callable[[str], None]) -> None:
        with self._explained():
            self._writer.hold(on_loss)

    @override
    def check(self) -> None:
        """Does nothing: what the server has to say, it says in each transaction."""

    @override
    def describe_wait(self) -> str:
        return self._writer.waits.describe()

    @override
    def close(self) -> None:
        self._writer.close()
        self._readers.close()

    def _read_revision(self, made: postgres_connection.Connection) -> str | None:
        """Returns the revision of the schema, or None if there is none yet.

        Raises:
            StoreError: If a newer version made it.
        """
        ((known,),) = made.execute("SELECT to_regclass(%s)", [migrating.TABLE]).fetchall()
        if known is None:
            return None
        row = made.execute(f"SELECT version_num FROM {migrating.TABLE}".encode()).fetchone()
        current = None if row is None else str(row[0])
        migrating.check_known(current, self._place)
        return current

    @contextlib.contextmanager
    def _explained(self) -> Iterator[None]:
        try:
            yield
        except psycopg.Error as error:
            raise postgres_errors.explain(error, self._place) from error
        except OverflowError as error:
            raise errors.ConfigError(database_errors.TOO_LARGE) from error
