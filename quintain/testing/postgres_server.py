"""PostgreSQL server on the loopback device, for tests and benchmarks."""

import contextlib
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import tempfile
import time
import uuid
from collections.abc import Iterator
from typing import Any, Final, Self

import psycopg

_ROOTS: Final = ("/usr/lib/postgresql", "/usr/local/pgsql", "/opt/homebrew/opt/postgresql")
_USER: Final = "postgres"
_QUICK: Final = ("fsync=off", "full_page_writes=off")
"""A test needs no file that outlives its machine."""

_SETTINGS: Final = (
    *("max_connections=60", "shared_buffers=32MB"),
    *("listen_addresses=127.0.0.1", "unix_socket_directories=", "logging_collector=off"),
    # What tests make has few pages: nobody needs to tidy it up.
    *("autovacuum=off", "max_wal_size=256MB"),
)
_START_SECS: Final = 60.0


def find_programs() -> pathlib.Path | None:
    """Returns the directory with `initdb` and `postgres`, or None if there is none."""
    found = shutil.which("initdb")
    if found is not None:
        return pathlib.Path(found).resolve().parent
    for root in map(pathlib.Path, _ROOTS):
        for path in sorted(root.glob("**/bin/initdb"), reverse=True):
            return path.parent
    return None


class PostgresServer:
    """A server with files of its own, whose databases need no password.

    Its superuser is `postgres`. It runs as a user of this name if the program runs as root, whom
    the server refuses to serve.

    Example:
        with PostgresServer(programs) as server, server.database() as url:
            store = stores.open_store(url)

    Attributes:
        port: Port on the loopback device, which stays the same when it is started again.
    """

    def __init__(self, programs: pathlib.Path, *, is_durable: bool = False) -> None:
        self._programs = programs
        self._settings = _SETTINGS if is_durable else (*_SETTINGS, *_QUICK)
        self._owner: dict[str, Any] = {}
        if os.geteuid() == 0:
            self._owner = {"user": _USER, "group": _USER, "extra_groups": []}
        self._process: subprocess.Popen[bytes] | None = None
        with socket.socket() as held:
            held.bind(("127.0.0.1", 0))
            self.port: int = held.getsockname()[1]

    def __enter__(self) -> Self:
        """Makes its files, and starts it."""
        self._directory = pathlib.Path(tempfile.mkdtemp(prefix="quintain-postgres-"))
        if self._owner:
            shutil.chown(self._directory, _USER, _USER)
        options = ("--auth=trust", f"--username={_USER}", "--encoding=UTF8", "--locale=C")
        data = str(self._directory / "data")
        subprocess.run(
            [str(self._programs / "initdb"), *options, "--no-sync", "-D", data],
            check=True,
            stdout=subprocess.DEVNULL,
            cwd="/",
            **self._owner,
        )
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Ends it, and deletes its files."""
        self.stop()
        shutil.rmtree(self._directory)

    def start(self) -> None:
        """Starts it, and waits until it answers."""
        settings = [part for setting in self._settings for part in ("-c", setting)]
        data = str(self._directory / "data")
        command = [str(self._programs / "postgres"), "-D", data, "-p", str(self.port), *settings]
        deadline = time.monotonic() + _START_SECS
        while not self._answers():
            if time.monotonic() > deadline:
                log = (self._directory / "log").read_text(errors="replace")
                raise RuntimeError(f"The server does not start: {log[-2000:]}")
            # Processes of one that was killed may still keep its files for a moment.
            if self._process is None or self._process.poll() is not None:
                with (self._directory / "log").open("ab") as log_file:
                    self._process = subprocess.Popen(
                        command,
                        stdin=subprocess.DEVNULL,
                        stdout=log_file,
                        stderr=log_file,
                        cwd="/",
                        start_new_session=True,
                        **self._owner,
                    )
            time.sleep(0.02)

    def kill(self) -> None:
        """Ends it as the loss of its machine would, without a word to anybody."""
        self._end(signal.SIGKILL)

    def stop(self) -> None:
        """Ends it in order; who is connected is told."""
        self._end(signal.SIGINT)

    def build_url(self, database: str = _USER) -> str:
        """Returns the address of a database."""
        return f"postgresql+psycopg://{_USER}@127.0.0.1:{self.port}/{database}"

    def run(self, statement: str, database: str = _USER) -> list[tuple[Any, ...]]:
        """Runs a statement as the superuser, and returns its rows."""
        with self._connect(database) as connection:
            cursor = connection.execute(statement.encode())
            return cursor.fetchall() if cursor.description else []

    def create_database(self, template: str = "template1") -> str:
        """Makes a database like another one, to which nobody is connected; returns its name."""
        name = f"test_{uuid.uuid4().hex}"
        self.run(f"CREATE DATABASE {name} TEMPLATE {template}")
        return name

    @contextlib.contextmanager
    def database(self, template: str = "template1") -> Iterator[str]:
        """Yields the address of a new database, which is deleted afterwards."""
        name = self.create_database(template)
        try:
            yield self.build_url(name)
        finally:
            self.run(f"DROP DATABASE {name} WITH (FORCE)")

    def _connect(self, database: str) -> "psycopg.Connection[tuple[Any, ...]]":
        url = self.build_url(database).replace("+psycopg", "")
        return psycopg.connect(url, autocommit=True, connect_timeout=5)

    def _answers(self) -> bool:
        if self._process is None:
            return False
        try:
            self._connect(_USER).close()
        except psycopg.OperationalError:
            return False
        return True

    def _end(self, number: signal.Signals) -> None:
        if self._process is not None:
            self._process.send_signal(number)
            self._process.wait()
            self._process = None
