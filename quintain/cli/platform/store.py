"""`quintain store`: the database in which experiments are kept."""

import contextlib
import pathlib
import shlex
import time
from collections.abc import Iterator
from typing import Final

import click

from quintain import errors
from quintain.cli.lazy_group import FlagCommand, LazyGroup
from quintain.client.home import home as home_lib
from quintain.client.home import home_database, master_lock

_TOLD_SECS: Final = 2.0
"""Between two lines about the same table."""


@click.group(cls=LazyGroup)
def store() -> None:
    """Move the database in which experiments are kept."""


@store.command(cls=FlagCommand)
@click.argument("source", metavar="FROM")
@click.argument("target", metavar="TO")
def copy(source: str, target: str) -> None:
    r"""Copy all experiments from one database to another one, which must be empty.

    FROM and TO are each a home directory (its database), an SQLite file, or an address such as
    postgresql+psycopg://USER@HOST/NAME, whose password stands in ~/.pgpass, in PGPASSWORD, or in
    the same address in QUINTAIN_DATABASE. FROM stays as it is. No master may use them meanwhile.
    Code and checkpoints stay in the home.

    \b
    quintain store copy ~/.quintain postgresql+psycopg://me@db.example/trials
    quintain master start --database postgresql+psycopg://me@db.example/trials
    """
    from quintain.store import copying
    from quintain.store import store as store_lib

    origin, goal = _find_database("FROM", source), _find_database("TO", target, is_target=True)
    if home_database.are_same(origin, goal):
        raise errors.ConfigError(f"FROM, TO: got {home_database.describe(goal)} twice.")
    if isinstance(origin, pathlib.Path) and not origin.is_file():
        raise errors.NotFoundError(f"FROM: {origin}: there is no database.")
    with contextlib.ExitStack() as opened:
        opened.enter_context(home_lib.write_privately())
        for database in (origin, goal):
            opened.enter_context(_without_master(database))
        reading = opened.enter_context(contextlib.closing(store_lib.open_store(origin)))
        reading.hold(lambda _: None)  # Where that is refused, no file is made.
        writing = opened.enter_context(contextlib.closing(store_lib.open_store(goal)))
        counts = copying.copy(reading, writing, _Progress().tell)
    place = home_database.describe(goal)
    click.echo(
        f"Copied {sum(counts.values()):,} rows, {counts['experiments']:,} experiments and "
        f"{counts['trials']:,} trials among them, to {place}; the numbers of rows agree."
    )
    click.echo(f"To go on there:\n  quintain master start --database {shlex.quote(place)}")


def _find_database(name: str, text: str, *, is_target: bool = False) -> home_database.Database:
    """Returns the database that an argument means."""
    found = home_database.parse_argument(name, text)
    if isinstance(found, pathlib.Path) and found.is_dir():
        former = None if is_target else home_database.find_former(found)
        return former or found / home_database.OWN_FILE
    return found


@contextlib.contextmanager
def _without_master(database: home_database.Database) -> Iterator[None]:
    """Keeps masters from a file of a home directory; a server's databases are held otherwise.

    Raises:
        StateError: If there is a master.
    """
    if isinstance(database, str) or not (database.parent / master_lock.FILE_NAME).is_file():
        yield
        return
    with contextlib.ExitStack() as lock:
        try:
            lock.enter_context(master_lock.hold(database.parent))
        except master_lock.LockedError as error:
            raise errors.StateError(
                f"{database}: a master uses it ({error}). End it by `quintain master stop`, and "
                "copy then."
            ) from error
        yield


class _Progress:
    """Says how far a copy is."""

    def __init__(self) -> None:
        self._told_secs = time.monotonic()

    def tell(self, table: str, done: int, total: int) -> None:
        now = time.monotonic()
        if total and (done == total or now - self._told_secs >= _TOLD_SECS):
            self._told_secs = now
            click.echo(f"{table}: {done:,} of {total:,}", err=True)
