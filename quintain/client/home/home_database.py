"""Database of a home directory's experiments.

It is the file `quintain.db` of the home, unless the variable names another one. A master notes the
other one in `database.json`, so that commands find it without the variable.
"""

import contextlib
import json
import os
import pathlib
from collections.abc import Iterator, MutableMapping
from typing import Final

from quintain import errors
from quintain.files import atomic_write, disk_errors
from quintain.records.config import database_url

VARIABLE: Final = "QUINTAIN_DATABASE"
"""Environment variable with the address of a database, or the path of an SQLite file."""

OWN_FILE: Final = "quintain.db"
FILE_NAME: Final = "database.json"

_PASSWORD_VARIABLE: Final = "PGPASSWORD"
"""Environment variable in which libpq looks for a password."""

Database = str | pathlib.Path
"""An address, or the path of an SQLite file."""


def find(home: pathlib.Path) -> Database:
    """Returns the database of a home: what the variable names, or the one that it had last.

    Raises:
        ConfigError: If the variable, or what was noted, can't be understood.
    """
    given = os.environ.get(VARIABLE)
    if given:
        return parse(given)
    return find_former(home) or home / OWN_FILE


def find_former(home: pathlib.Path) -> Database | None:
    """Returns the database that the last master of a home had, or None if there was none.

    Raises:
        ConfigError: If what was noted can't be read.
    """
    path = home / FILE_NAME
    try:
        return parse(str(disk_errors.read_json(path)["database"]))
    except FileNotFoundError:
        return home / OWN_FILE if (home / OWN_FILE).exists() else None
    except (OSError, errors.DamagedFileError, KeyError, TypeError) as error:
        raise errors.ConfigError(
            f"{path}: which database this home has can't be read ({error}). Name it by "
            f"{VARIABLE}, and start the master."
        ) from error


def exists(home: pathlib.Path) -> bool:
    """Returns whether a home has a database already, as far as that can be seen from here."""
    database = find(home)
    return isinstance(database, str) or database.exists()


def bind(home: pathlib.Path, database: Database) -> None:
    """Notes the database of a home, for commands that are not told; only its owner may read it."""
    path = home / FILE_NAME
    if database == home / OWN_FILE:
        path.unlink(missing_ok=True)
        return
    content = json.dumps({"database": str(database)})
    with contextlib.suppress(OSError):
        if path.read_text(encoding="utf-8") == content:
            return
    atomic_write.write_atomically(path, content, mode=0o600)


def parse(text: str) -> Database:
    """Returns the database that a user names.

    Raises:
        ConfigError: If it is an address of no database that is known here.
    """
    if not database_url.is_url(text):
        return pathlib.Path(text).expanduser().absolute()
    database_url.parse(text)
    return text


def parse_argument(name: str, text: str) -> Database:
    """Returns the database that an argument of a command names.

    The address in the variable stands for one without settings that names the same database and
    user: it has the password, which an argument can't have.

    Raises:
        ConfigError: If it has a password, which everybody on this machine could read.
    """
    if database_url.is_url(text) and database_url.parse(text).has_password:
        raise errors.ConfigError(
            f"{name}: got an address with a password, which all users of this machine see in the "
            f"list of processes. Change the password if others were there to read it, and give the "
            f"address without it: the password can stand in ~/.pgpass, in the variable "
            f"{_PASSWORD_VARIABLE}, or with all of the address in the variable {VARIABLE}."
        )
    database, known = parse(text), os.environ.get(VARIABLE, "")
    if isinstance(database, str) and "?" not in text and database_url.is_url(known):
        users = {describe(each).rpartition("@")[0] for each in (database, known)}
        return known if are_same(database, known) and len(users) == 1 else database
    return database


def describe(database: Database) -> str:
    """Returns what messages show of a database: no password."""
    return database_url.parse(database).place if isinstance(database, str) else str(database)


def are_same(first: Database, second: Database) -> bool:
    """Returns whether two names mean the same database, as far as the names tell."""
    if isinstance(first, str) and isinstance(second, str):
        return database_url.parse(first).key == database_url.parse(second).key
    return first == second


def hide(environment: MutableMapping[str, str], home: pathlib.Path | None = None) -> None:
    """Takes out of an environment what opens a database: trials are users' code.

    Args:
        environment: Variables; if the database is none of a server, its password is another's.
        home: The home directory, whose database counts if the variable names none.
    """
    given = environment.pop(VARIABLE, "")
    try:
        database = parse(given) if given or home is None else find_former(home)
    except errors.ConfigError:
        database = given
    if isinstance(database, str):
        environment.pop(_PASSWORD_VARIABLE, None)


@contextlib.contextmanager
def hidden_from_children(database: Database) -> Iterator[None]:
    """Keeps what opens a database from processes that this one starts: trials are users' code."""
    names = (VARIABLE, _PASSWORD_VARIABLE) if isinstance(database, str) else (VARIABLE,)
    former = {name: os.environ.pop(name) for name in names if name in os.environ}
    try:
        yield
    finally:
        os.environ.update(former)
