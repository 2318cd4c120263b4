"""Connections to a PostgreSQL server."""

import os
from typing import Any, Final

import psycopg
import psycopg.conninfo

from quintain import errors
from quintain.records.config import database_url

Connection = psycopg.Connection[Any]

_LEAST_VERSION: Final = 120_000
_SETTINGS: Final = {
    "connect_timeout": "5",
    # A server that was cut off is known soon; one that is only slow is not given up.
    "keepalives_idle": "10",
    "keepalives_interval": "5",
    "keepalives_count": "3",
    "tcp_user_timeout": "25000",
}
_SET_UP: Final = """
SELECT set_config('synchronous_commit', 'on', false)
    WHERE current_setting('synchronous_commit') = 'off';
SELECT set_config('tcp_keepalives_idle', '10', false),
    set_config('tcp_keepalives_interval', '5', false),
    set_config('tcp_keepalives_count', '3', false)
"""
"""The files of old checkpoints are deleted after a commit, so that it has to last. And the server
knows soon that a master is cut off, so that another one can take its place."""


class Connector:
    """Makes connections, all alike."""

    def __init__(self, url: database_url.DatabaseUrl, name: str) -> None:
        self._place = url.place
        settings = {**_SETTINGS, "application_name": name}
        try:
            given = psycopg.conninfo.conninfo_to_dict(url.conninfo)
        except psycopg.Error as error:
            raise errors.ConfigError(
                f"database: {url.place} can't be understood; expected {database_url.EXAMPLE}."
            ) from error
        self._settings: dict[str, Any] = {**settings, **given, "client_encoding": "utf8"}

    def connect(self) -> Connection:
        """Returns a new connection, on which transactions begin by `BEGIN` only."""
        made = psycopg.connect(**self._settings, autocommit=True)
        # The variables that it came from may be gone when the next one is made.
        if made.info.password:
            self._settings["password"] = made.info.password
        made.execute(_SET_UP)
        return made

    def check(self, made: Connection) -> None:
        """Refuses servers and databases that can't hold experiments.

        Raises:
            StoreError: If the server is too old, or the database does not take all characters.
        """
        if made.info.server_version < _LEAST_VERSION:
            raise errors.StoreError(
                f"{self._place}: the server is PostgreSQL {made.info.server_version // 10_000}, "
                f"expected {_LEAST_VERSION // 10_000} or newer."
            )
        encoding = made.info.parameter_status("server_encoding")
        if encoding != "UTF8":
            raise errors.StoreError(
                f"{self._place}: the encoding of the database is {encoding}, expected UTF8. Make "
                "one by `createdb --encoding=UTF8 --template=template0 NAME`."
            )


def build_name(mark: str) -> str:
    """Returns what the server calls this program: its mark, machine and process, in 63 bytes."""
    return f"quintain {mark} {os.getpid()}@{os.uname().nodename}"[:63]


def describe_name(name: str, address: str | None) -> str:
    """Returns words for a program by what the server calls it."""
    parts = name.split(" ", 2)
    if parts[0] == "quintain" and len(parts) == 3:
        pid, _, host = parts[2].partition("@")
        return f"process {pid} on {host}"
    return f"{name or 'a program'}{f' from {address}' if address else ''}"
