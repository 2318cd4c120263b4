"""Connections of commands: to the home's master, or to its store where none runs."""

import contextlib
import os
import pathlib
import time
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Final, TypeVar

import click

from quintain import errors
from quintain.client import calls as calls_lib
from quintain.client.home import home as home_lib
from quintain.client.home import logins, master_file
from quintain.server.security import own_commands

if TYPE_CHECKING:
    from quintain.client import master_client

T = TypeVar("T")

IDLE_TIMEOUT_SECS: Final = 300.0
"""After so long without an active experiment a master ends that a command started by itself."""

_START_SECS: Final = 60.0
_POLL_SECS: Final = 0.05
_LAST_LINES: Final = 5


@contextlib.contextmanager
def open_calls() -> Iterator[calls_lib.Calls]:
    """Gives what answers reads: the running master, or else the store."""
    home = home_lib.find_home()
    found = home_lib.find_master(home)
    if found is not None:
        with connect_to(home, found) as connected:
            yield connected
        return
    with _open_store(home) as calls:
        yield calls


def ask(question: Callable[[calls_lib.Calls], T]) -> T:
    """Returns the answer to a question that is asked again and again, while masters come and go.

    Args:
        question: Reads; it may be asked a second time.
    """
    try:
        with open_calls() as calls:
            return question(calls)
    except errors.MasterUnreachableError:
        if logins.find(home_lib.find_home().path) is not None:
            raise
        # It has ended since it was found.
        with _open_store(home_lib.find_home()) as calls:
            return question(calls)


@contextlib.contextmanager
def _open_store(home: home_lib.Home) -> Iterator[calls_lib.Calls]:
    # `--help` need not wait for these.
    from quintain.master.cleanup import home_identity
    from quintain.server import direct_calls
    from quintain.store import store as store_lib

    home.close_to_others()
    if not home.path.exists() and os.environ.get(home_lib.HOME_VARIABLE):
        click.echo(
            f"Warning: {home_lib.HOME_VARIABLE} names {home.path}, which is not there. Is its disk "
            "mounted?",
            err=True,
        )
    database = home.database
    with home_lib.write_privately(), contextlib.closing(store_lib.open_to_read(database)) as store:
        problem = home_identity.find_rebinding(home.path, database, store)
        if problem := problem or home_identity.find_mismatch(home.path, store):
            click.echo(f"Warning: {problem}", err=True)
        yield direct_calls.DirectCalls(store, home)


@contextlib.contextmanager
def open_client(
    *, start: bool = True, run_dirs: Sequence[str] = ()
) -> Iterator["master_client.MasterClient"]:
    """Gives a client of the master, which is started in the background if none runs.

    Args:
        start: Whether to start one.
        run_dirs: Directories whose runs its page shows, if it is started here.

    Raises:
        MasterUnreachableError: If none runs and none is to be started, or it does not start.
    """
    home = home_lib.find_home()
    found = home_lib.find_master(home)
    if found is None:
        if not start:
            raise errors.MasterUnreachableError(
                f"No master runs for {home.path}; start one with `quintain master`."
            )
        found, is_own = _start(home, run_dirs=run_dirs)
        click.echo(
            f"Started a master in the background ({found.name}); it ends by itself when "
            "there is nothing to do."
            if is_own
            else f"Connected to the master that another command has just started ({found.name}).",
            err=True,
        )
    with connect_to(home, found) as connected:
        yield connected


@contextlib.contextmanager
def connect_to(
    home: home_lib.Home, found: master_file.MasterFile | logins.Login
) -> Iterator["master_client.MasterClient"]:
    """Gives a client of a master that was found.

    Args:
        home: The home directory.
        found: What says where it is.

    Raises:
        UnauthorizedError: If it does not take the token; with what the token was taken from.
    """
    # It imports urllib3, which commands that read the store need not wait for.
    from quintain.client import master_client

    try:
        with master_client.MasterClient.connect(home, found.address) as connected:
            yield connected
    except errors.UnauthorizedError as error:
        if not isinstance(found, logins.Login):
            raise
        raise errors.UnauthorizedError(
            f"{found.token_origin}: {found.name} does not take the token: {error}"
        ) from error


def start_in_background(
    home: home_lib.Home,
    *,
    num_slots: int | None = None,
    threads_per_slot: int | None = None,
    run_dirs: Sequence[str] = (),
    flags: Sequence[str] = (),
) -> master_file.MasterFile:
    """Starts a master that outlives this command, and returns where it is.

    It ends by itself when there has been nothing to do for a while.

    Args:
        home: The home directory.
        num_slots: Trials that run at once; what fits the machine if None.
        threads_per_slot: CPU threads of each; an equal share of all if None.
        run_dirs: Directories whose runs of `quintain train` its page shows.
        flags: Further flags of `quintain master start`.

    Raises:
        MasterUnreachableError: If it ends at once, or does not answer; with its last words.
    """
    return _start(home, num_slots, threads_per_slot, run_dirs=run_dirs, flags=flags)[0]


def _start(
    home: home_lib.Home,
    num_slots: int | None = None,
    threads_per_slot: int | None = None,
    *,
    run_dirs: Sequence[str] = (),
    flags: Sequence[str] = (),
) -> tuple[master_file.MasterFile, bool]:
    """Starts a master; returns where one is, and whether it is not another command's."""
    arguments = ["--idle-timeout", str(IDLE_TIMEOUT_SECS), *flags]
    if num_slots is not None:
        arguments += ["--slots", str(num_slots)]
    if threads_per_slot is not None:
        arguments += ["--threads-per-slot", str(threads_per_slot)]
    for directory in run_dirs:
        arguments += ["--runs", directory]
    home.create()
    if isinstance(home.database, str):
        # What is wrong with it is said here, and not in a log.
        from quintain.store import store as store_lib

        store_lib.open_store(home.database).close()
    import subprocess

    log_path = home.logs / "master.log"
    with home_lib.write_privately(), log_path.open("ab") as log:
        process = subprocess.Popen(
            own_commands.build("master", "start", *arguments),
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            cwd=home.path,
            env=own_commands.build_environment(home),
            start_new_session=True,
        )
    # It may also be another command's master that has come first.
    found = wait_for_master(home, lambda: process.poll() is not None)
    if found is not None:
        return found, found.pid == process.pid
    raise errors.MasterUnreachableError(
        f"The master did not start; the end of {log_path}:\n{_read_end(log_path)}"
    )


def wait_for_master(
    home: home_lib.Home, has_failed: Callable[[], bool] = lambda: False
) -> master_file.MasterFile | None:
    """Returns where a master is that is just starting, or None if it does not come up.

    Args:
        home: The home directory.
        has_failed: Whether there is no use in waiting any more.
    """
    deadline_secs = time.monotonic() + _START_SECS
    while time.monotonic() < deadline_secs:
        has_ended = has_failed()
        found = home_lib.find_own_master(home)
        if found is not None or has_ended:
            return found
        time.sleep(_POLL_SECS)
    return None


def _read_end(path: pathlib.Path) -> str:
    lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
    return "\n".join(lines[-_LAST_LINES:])
