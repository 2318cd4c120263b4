"""Database backend: the interface that SQLite and PostgreSQL implement."""

import abc
import contextlib
from collections.abc import Callable

from quintain.store import migrating, statements

Runner = statements.Runner


class Backend(abc.ABC):
    """Connections to one database, and what its errors mean."""

    @property
    @abc.abstractmethod
    def place(self) -> str:
        """The file, or the address without its password."""

    @abc.abstractmethod
    def writing(self) -> contextlib.AbstractContextManager[Runner]:
        """Gives what runs statements in a transaction, which is kept if the block raises nothing.

        Raises:
            StoreError: If the database refuses; nothing is kept then.
        """

    @abc.abstractmethod
    def reading(self) -> contextlib.AbstractContextManager[Runner]:
        """Gives what runs queries, all as of one moment.

        Raises:
            StoreError: If the database can't be read.
        """

    @abc.abstractmethod
    def migrate(self, rebuild: migrating.Rebuild) -> None:
        """Brings the schema up to date where needed.

        Args:
            rebuild: Computes the curves of trials, which the first schemas do not have.

        Raises:
            StoreError: If the database can't be used, or a newer version made it.
        """

    @abc.abstractmethod
    def hold(self, on_loss: Callable[[str], None]) -> None:
        """Makes this the only master of the database until it is closed.

        Args:
            on_loss: Is told, from any thread, why it is not any more.

        Raises:
            StoreError: If another one is.
        """

    @abc.abstractmethod
    def check(self) -> None:
        """Finds out whether there is anything to write to, as far as no transaction would tell.

        Raises:
            StoreError: If not.
        """

    @abc.abstractmethod
    def describe_wait(self) -> str:
        """Returns what transactions wait for now, or an empty text if none waits."""

    @abc.abstractmethod
    def close(self) -> None:
        """Closes all connections."""
