"""URL of a PostgreSQL database, and its form without secrets."""

import dataclasses
import re
import urllib.parse
from typing import Final

from quintain import errors

SCHEME: Final = "postgresql+psycopg"
EXAMPLE: Final = f"{SCHEME}://USER@HOST:5432/DATABASE"

_SCHEMES: Final = (SCHEME, "postgresql", "postgres")
_DEFAULT_PORT: Final = "5432"
_SECRETS: Final = frozenset({"password", "sslpassword"})
_HOST: Final = re.compile(r"(\[[0-9a-fA-F:.%]+\]|[^\[\]:]*)(:\d+)?")
_CREDENTIALS: Final = re.compile(r"\b(?:[a-z][a-z0-9+.-]*)://[^\s'\"]*@")


@dataclasses.dataclass(frozen=True)
class DatabaseUrl:
    """Parsed address of a database; see `parse`."""

    conninfo: str = dataclasses.field(repr=False)
    """What libpq takes. It may hold a password."""

    place: str
    """What messages may show: neither a password nor further settings."""

    key: tuple[str, str, str]
    """What tells databases from each other: hosts, name, and settings of the session."""

    has_password: bool
    """Whether a password is part of the address."""


def is_url(text: object) -> bool:
    """Returns whether a text is an address, and no path of a file."""
    return isinstance(text, str) and "://" in text


def parse(text: str) -> DatabaseUrl:
    """Returns what an address says.

    Raises:
        ConfigError: If it is none of PostgreSQL. Nothing of it is repeated but its scheme, because
            a password may be anywhere in what is not understood.

    Example:
        >>> parse("postgresql+psycopg://me:secret@db.example/trials").place
        'postgresql+psycopg://me@db.example/trials'
    """
    scheme, _, rest = text.partition("://")
    if scheme not in _SCHEMES:
        raise errors.ConfigError(
            f"database: got an address that begins with {errors.show(scheme + '://')}, expected "
            f"{EXAMPLE}, or the path of an SQLite file."
        )
    before, _, query = rest.partition("?")
    authority, _, name = before.partition("/")
    userinfo, _, hosts = authority.rpartition("@")
    user, divider, password = userinfo.partition(":")
    given = dict(urllib.parse.parse_qsl(query, keep_blank_values=True))
    is_malformed = "#" in rest or any("@" in part for part in (userinfo, name, query))
    if is_malformed or re.search(r"\s", text) or not all(map(_HOST.fullmatch, hosts.split(","))):
        raise errors.ConfigError(
            "database: the address can't be understood. Write characters of a password such as "
            f"`@`, `/`, `#`, `?` or spaces as %40, %2F, %23, %3F and %20; expected {EXAMPLE}."
        )
    name = urllib.parse.unquote(name) or given.get("dbname", "")
    user = urllib.parse.unquote(user) or given.get("user", "")
    shown_hosts = hosts or given.get("host", "")
    shown_name = urllib.parse.quote(name, safe="")
    owner = f"{urllib.parse.quote(user, safe='')}@" if user else ""
    return DatabaseUrl(
        conninfo=f"postgresql://{rest}",
        place=f"{SCHEME}://{owner}{shown_hosts}/{shown_name}",
        key=(
            _normalize(shown_hosts, given.get("port", _DEFAULT_PORT)),
            name or user,
            given.get("options", ""),
        ),
        has_password=bool(divider and password) or bool(_SECRETS & given.keys()),
    )


def hide_passwords(text: str) -> str:
    """Returns a message without what stands before the host of addresses in it.

    Example:
        >>> hide_passwords("can't connect to postgresql://me:secret@db/trials")
        "can't connect to postgresql://***@db/trials"
    """
    return _CREDENTIALS.sub(lambda found: found[0].partition("://")[0] + "://***@", text)


def _normalize(hosts: str, port: str) -> str:
    parts = [host.lower() for host in hosts.split(",")]
    return ",".join(
        part if re.search(r":\d+$", part) or part.startswith("/") else f"{part}:{port}"
        for part in parts
    )
