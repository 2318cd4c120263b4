"""Writer connection to PostgreSQL, whose lock makes a master the only one.

A master's connection holds a lock of the server for as long as it lives, and all of the master's
writing goes through it: what another master could not know of is never written. If the connection
drops, the lock is taken again on the next one; if another master was there meanwhile, which its
mark in the table `holder` tells, this one is over.
"""

import contextlib
import logging
import threading
import time
from collections.abc import Callable, Iterator
from typing import Final

import psycopg

from quintain import errors
from quintain.store import statements
from quintain.store.postgres import (
    postgres_connection,
    postgres_errors,
    postgres_locks,
    postgres_statements,
)

logger = logging.getLogger(__name__)

_SILENT_SECS: Final = 1.0
"""A wait that is over so soon is worth no word."""


_BEGIN: Final = (
    "BEGIN ISOLATION LEVEL READ COMMITTED; "
    f"SELECT {postgres_locks.build_try('pg_try_advisory_xact_lock', postgres_locks.WRITING)}; "
    "SELECT table_name, last_id FROM last_ids"
)
"""In one message. Writers follow one another, so that each sees what the others have written."""

_POLL_SECS: Final = 0.02
_PAUSE_SECS: Final = 0.5
"""Between two looks for a server that is away."""

_WATCH_SECS: Final = 2.0
"""Between two looks whether the connection is there, while nobody writes."""

_OUTCOME_SECS: Final = 120.0
"""How long to wait for a server that knows whether a transaction was kept."""


class Writer:
    """Writes, one transaction after the other.

    Args:
        connector: Makes connections.
        place: The address, for messages.
        mark: What no other program is called.
        busy_secs: How long a transaction waits for another program.
    """

    def __init__(
        self,
        connector: postgres_connection.Connector,
        place: str,
        mark: str,
        busy_secs: float,
    ) -> None:
        self._connector = connector
        self._place = place
        self._busy_secs = busy_secs
        self._own_name = f"by {mark}"
        self._locks = postgres_locks.Locks(place, mark)
        self.waits = Waits(place)
        self._connection: postgres_connection.Connection | None = None
        self._next_look = 0.0
        self._absence = ""
        self._on_loss: Callable[[str], None] | None = None
        self._loss = ""
        self._using = threading.RLock()
        self._is_closed = threading.Event()
        self._watching: threading.Thread | None = None

    def hold(self, on_loss: Callable[[str], None]) -> None:
        """Makes this the only master, and watches that it stays so.

        Raises:
            StoreError: If another one is.
            psycopg.Error: If the server refuses.
        """
        with self._using:
            self._locks.hold(self._connect())
            self._on_loss = on_loss
        self._watching = threading.Thread(target=self._watch, name="quintain-store", daemon=True)
        self._watching.start()

    @contextlib.contextmanager
    def alone(self) -> Iterator[None]:
        """Keeps masters, and others who want to be alone, from beginning.

        Raises:
            StoreError: If there is a master.
            psycopg.Error: If the server refuses.
        """
        with self._using:
            self._locks.lock_alone(self._connect(), self._busy_secs)
            try:
                yield
            finally:
                if self._connection is not None:
                    # The server lets go of what a closed one holds, but a moment later.
                    with contextlib.suppress(psycopg.Error):
                        self._connection.execute("SELECT pg_advisory_unlock_all()")
                self._discard()

    @contextlib.contextmanager
    def transaction(self) -> Iterator[statements.Runner]:
        """Gives what runs statements in a transaction.

        Raises:
            StoreError: If another program writes for too long, or is the master now.
            psycopg.Error: If the server is away, or refuses.
        """
        with self._using:
            connection, last_ids = self._begin()
            numbers = postgres_statements.Numbers(last_ids, self._own_name)
            try:
                yield postgres_statements.PostgresRunner(connection, numbers)
                connection.execute(numbers.build_update(), prepare=False)
            except BaseException:
                self._roll_back(connection)
                raise
            try:
                connection.commit()
            except psycopg.Error as error:
                self._discard()
                if not postgres_errors.is_away(error) or not self._is_kept(numbers):
                    raise

    def close(self) -> None:
        """Closes the connection, and with it lets go of the lock."""
        self._is_closed.set()
        if self._watching is not None:
            self._watching.join()
        with self._using:
            self._discard()

    def _begin(self) -> tuple[postgres_connection.Connection, dict[str, int]]:
        """Returns a connection in a transaction, and the last numbers of tables."""
        deadline = time.monotonic() + self._busy_secs
        while True:
            is_kept = self._connection is not None
            connection = self._connect()
            try:
                last_ids = _begin_on(connection)
                if last_ids is not None:
                    self.waits.end()
                    return connection, last_ids
                connection.rollback()
                holder = self._locks.describe_holder(connection, postgres_locks.WRITING)
            except psycopg.Error as error:
                self._discard()
                # A connection may have been lost while nobody looked.
                if is_kept and postgres_errors.is_away(error):
                    continue
                raise
            reason = f"{self._place}: {holder} is writing to the database"
            if time.monotonic() >= deadline:
                self.waits.end()
                raise errors.StoreError(f"{reason}; end it, or wait, and try again.")
            self.waits.note(reason)
            time.sleep(_POLL_SECS)

    def _connect(self) -> postgres_connection.Connection:
        """Returns the connection; a new one after the last one was lost."""
        if self._loss:
            raise errors.StoreError(self._loss)
        if self._connection is not None:
            return self._connection
        if self._absence and time.monotonic() < self._next_look:
            raise errors.StoreAwayError(self._absence)
        made = None
        start = time.monotonic()
        try:
            made = self._connector.connect()
            if self._on_loss is not None:
                self._locks.hold_again(made)
        except postgres_locks.LostError as error:
            _close(made)
            self._loss = str(error)
            if self._on_loss is not None:
                self._on_loss(self._loss)
            raise
        except psycopg.Error as error:
            _close(made)
            self._absence = str(postgres_errors.explain(error, self._place))
            now = time.monotonic()
            # Who finds nobody for seconds would else do nothing but look.
            self._next_look = now + max(_PAUSE_SECS, now - start)
            self.waits.note(self._absence)
            raise
        self._absence = ""
        self.waits.end()
        self._connection = made
        return made

    def _discard(self) -> None:
        connection, self._connection = self._connection, None
        _close(connection)

    def _roll_back(self, connection: postgres_connection.Connection) -> None:
        try:
            connection.rollback()
        except psycopg.Error:
            self._discard()

    def _is_kept(self, numbers: postgres_statements.Numbers) -> bool:
        """Returns whether a transaction was kept whose end the server could not confirm.

        Raises:
            StoreError: If that can't be found out, or another master has the database.
        """
        deadline = time.monotonic() + _OUTCOME_SECS
        while time.monotonic() < deadline and not self._is_closed.is_set():
            try:
                connection = self._connect()
                # If the server is still at it, it has the lock.
                last_ids = _begin_on(connection)
                connection.rollback()
            except (psycopg.Error, errors.StoreAwayError):
                self._discard()
            else:
                if last_ids is not None:
                    return numbers.is_in(last_ids)
            self._is_closed.wait(_POLL_SECS)
        raise errors.StoreError(
            f"{self._place}: the server went away while a transaction ended, and whether it was "
            f"kept could not be found out within {_OUTCOME_SECS:g} s."
        )

    def _watch(self) -> None:
        """Looks whether the connection is there, so that its loss is known while nobody writes."""
        while not self._is_closed.wait(_WATCH_SECS):
            if not self._using.acquire(blocking=False):
                continue  # Who writes sees it.
            try:
                self._connect().execute("SELECT 1")
            except (psycopg.Error, errors.StoreAwayError):
                self._discard()
            except errors.StoreError:
                return  # Another master has it.
            finally:
                self._using.release()


def _begin_on(connection: postgres_connection.Connection) -> dict[str, int] | None:
    """Begins a transaction; returns the last numbers of tables, or None if another one writes."""
    answers = connection.execute(_BEGIN, prepare=False)
    answers.nextset()
    ((has_lock,),) = answers.fetchall()
    answers.nextset()
    last_ids: dict[str, int] = dict(answers.fetchall())
    return last_ids if has_lock else None


def _close(connection: postgres_connection.Connection | None) -> None:
    if connection is not None:
        with contextlib.suppress(psycopg.Error):
            connection.close()


class Waits:
    """Reason for waiting for a database, and its beginning. Any thread may ask."""

    def __init__(self, place: str) -> None:
        self._place = place
        self._reason = ""
        self._start = 0.0
        self._is_told = False

    def note(self, reason: str) -> None:
        """Notes why somebody waits, who goes on waiting until `end`.

        Args:
            reason: A whole message, but for its end; it names the place.
        """
        now = time.monotonic()
        if not self._reason:
            self._start, self._is_told = now, False
        self._reason = reason.rstrip(".")
        if now - self._start >= _SILENT_SECS and not self._is_told:
            self._is_told = True
            logger.warning("%s", self.describe())

    def end(self) -> None:
        """Notes that nobody waits any more."""
        if self._reason:
            self._reason = ""
            if self._is_told:
                secs = time.monotonic() - self._start
                logger.warning("%s: the database is there again after %.0f s.", self._place, secs)

    def describe(self) -> str:
        """Returns what is waited for, and since when; empty if nothing is."""
        reason = self._reason
        if not reason:
            return ""
        return f"{reason}; waiting for {time.monotonic() - self._start:.0f} s."
