"""Errors of a PostgreSQL server, with advice."""

import re
from typing import Final

import psycopg

from quintain import errors
from quintain.records.config import database_url
from quintain.store import database_errors

_AWAY: Final = ("08", "57P")
"""Beginnings of codes of servers that end, begin, or are lost."""

_WHERE_PASSWORDS_STAND: Final = (
    "The password stands in the address, in PGPASSWORD or in ~/.pgpass (PGPASSFILE)"
)
_ADVICE: Final[tuple[tuple[str, str], ...]] = (
    ("28P01", f"the user name or the password is wrong. {_WHERE_PASSWORDS_STAND}"),
    ("28:role", "the server knows no such user. Make it there by `createuser NAME`, or correct the "
     "name in the address"),
    ("28", f"the server does not let this user in. {_WHERE_PASSWORDS_STAND}; pg_hba.conf on the "
     "server says who may come from where"),
    ("3D000", "there is no such database. Make it on the server by `createdb NAME`, or correct the "
     "name in the address"),
    ("3F000", "there is no such schema. Make it, or correct the `search_path` of the address"),
    ("42501", "this user may not do that. The master needs a user that may create tables in the "
     "schema, read and write: `GRANT ALL ON SCHEMA public TO USER`, and make it the owner of the "
     "tables; commands that show experiments need to read only"),
    ("25006", "it is read-only: a standby server, or a user who only reads. Name the primary "
     "server and a user who may write"),
    ("53100", "the disk of the server is full; make room there and try again"),
    ("53300", "the server has no connection left; raise its `max_connections`, or end other "
     "programs that use it"),
    ("53", "the server has too little memory or space; see its log"),
    ("55P03", "another program holds a lock; end it, or wait, and try again"),
    ("40", "another program was writing at the same time; try again"),
)  # fmt: skip
"""What to do, by beginnings of the codes of errors. The first that fits is told."""

_TEXTS: Final[tuple[tuple[str, str], ...]] = (
    ("password authentication failed", "28P01"),
    ("no password supplied", "28"),
    ("no pg_hba.conf entry", "28"),
    ("authentication failed", "28"),
    ('role "', "28:role"),
    ("does not exist", "3D000"),
    ("too many clients", "53300"),
    ("remaining connection slots", "53300"),
)
"""Codes of errors while a connection is made, which libpq gives in words only."""

_UNREACHABLE: Final = (
    "the server is not there. Check that it runs, and host and port of the address"
)


def is_away(error: BaseException) -> bool:
    """Returns whether an error means that there is no connection, or soon none, to a server."""
    if not isinstance(error, psycopg.OperationalError | psycopg.InterfaceError):
        return False
    code = error.sqlstate
    return code is None or code.startswith(_AWAY)


def describe(error: BaseException) -> str:
    """Returns what the database said, in one line and without passwords."""
    lines = [line.strip() for line in str(error).strip().splitlines()]
    # The first line is the message; hints and positions of statements follow.
    text = next((line for line in lines if line), type(error).__name__)
    last = next((line for line in reversed(lines) if "FATAL" in line or "failed" in line), text)
    shown = last if "FATAL" in last else text
    return database_url.hide_passwords(re.sub(r"\s+", " ", shown)).rstrip(".")


def explain(error: psycopg.Error, place: str) -> errors.QuintainError:
    """Returns the error that tells users what a database said, and what they can do.

    Args:
        error: What the driver raised.
        place: The address, without its password.
    """
    said = describe(error)
    code = error.sqlstate or next((code for words, code in _TEXTS if words in said), None)
    if code is None or code.startswith(_AWAY):
        return errors.StoreAwayError(f"{place}: {_UNREACHABLE} ({said}).")
    if code == "22003":
        return errors.ConfigError(database_errors.TOO_LARGE)
    if code.startswith(("22", "23", "54")):
        return database_errors.refuse(said, place)
    advice = next(
        (advice for start, advice in _ADVICE if code.startswith(start)),
        "nothing of this transaction was kept",
    )
    return errors.StoreError(f"{place}: the database said {said!r}: {advice}.")
