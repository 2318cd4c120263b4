"""Files that are fetched from a master or sent to it, however often the connection breaks.

A transfer goes on where it was broken off. It is given up when nothing more has arrived for as long
as the connection waits for its master.
"""

import os
import pathlib
import urllib.parse
from collections.abc import Callable, Iterable, Mapping
from typing import Final

from quintain import errors
from quintain.client.http import connection as connection_lib
from quintain.records.views import file_listing

PIECE_BYTES: Final = 16 * 2**20
"""How much is sent by one request; no more of a file is held in memory."""

_PASSING: Final = (errors.ClusterError, errors.StoreError)
"""What is tried again: the master is away, or can't answer now."""


def fetch_file(
    connected: connection_lib.Connection, path: str, target: pathlib.Path, num_bytes: int | None
) -> None:
    """Fetches a file; what is there of it already is not fetched again.

    Args:
        connected: Connection to the master.
        path: Address of the file, from the root.
        target: Where to write it; its directory is there.
        num_bytes: Its size; None if it is not known, for a file that is fetched at one go.

    Raises:
        DamagedFileError: If it has another size at the master.
        MasterUnreachableError: If the master is away for longer than the connection waits.
        QuintainError: What the master raised, of the same class.
        OSError: If it can't be written.
    """
    if num_bytes is None:
        with target.open("wb") as file:
            connected.download(path, file)
        return
    target.touch()
    if target.stat().st_size > num_bytes:
        os.truncate(target, 0)

    def fetch_rest() -> None:
        offset = target.stat().st_size
        if offset < num_bytes:
            try:
                with target.open("ab") as file:
                    connected.download(path, file, offset=offset)
            except errors.DataError:  # It can't be had by parts.
                os.truncate(target, 0)
                raise

    keep_trying(
        connected,
        f"GET {path}",
        fetch_rest,
        lambda: target.stat().st_size,
        (*_PASSING, errors.DataError),
    )
    found = target.stat().st_size
    if found != num_bytes:
        os.truncate(target, 0)
        raise errors.DamagedFileError(f"{path}: has {found} bytes, expected {num_bytes}.")


def fetch_files(
    connected: connection_lib.Connection,
    path: str,
    names: Iterable[str],
    directory: pathlib.Path,
    sizes: Mapping[str, int],
) -> list[str]:
    """Fetches files into a directory, in place of what is there, and returns their paths.

    Args:
        connected: Connection to the master.
        path: Address, from the root, below which they are.
        names: Their paths.
        directory: Where to write them.
        sizes: Bytes of files, where that is known. Those of another size are fetched as they are.

    Raises:
        DataError: If a path leads out of the directory.
        QuintainError: As `fetch_file` does.
    """
    paths = []
    for name in names:
        target = file_listing.make_target(directory, name)
        target.unlink(missing_ok=True)
        source = f"{path}/{urllib.parse.quote(name)}"
        try:
            fetch_file(connected, source, target, sizes.get(name))
        except errors.DamagedFileError:
            fetch_file(connected, source, target, None)
        paths.append(str(target))
    return paths


def send_file(
    connected: connection_lib.Connection,
    path: str,
    source: pathlib.Path,
    *,
    offset: int,
    ask_offset: Callable[[], int],
) -> None:
    """Sends a file, from where the master has it.

    Args:
        connected: Connection to the master.
        path: Address of the file, from the root.
        source: The file.
        offset: How many bytes of it the master has.
        ask_offset: Asks the master for that, after a fault.

    Raises:
        MasterUnreachableError: If the master is away for longer than the connection waits.
        QuintainError: What the master raised, of the same class.
        OSError: If it can't be read.
    """
    with source.open("rb") as file:
        num_bytes = os.fstat(file.fileno()).st_size

        def send_rest() -> None:
            nonlocal offset
            while offset < num_bytes:
                file.seek(offset)
                piece = file.read(PIECE_BYTES)
                offset = int(
                    connected.send_bytes(path, piece, query={"offset": offset})["received"]
                )

        def measure() -> int:
            nonlocal offset
            offset = ask_offset()
            return offset

        keep_trying(connected, f"PUT {path}", send_rest, measure, (*_PASSING, errors.StateError))


def keep_trying(
    connected: connection_lib.Connection,
    what: str,
    run: Callable[[], None],
    measure: Callable[[], int],
    passing: tuple[type[errors.QuintainError], ...],
) -> None:
    """Runs a transfer until it is done; the time for it begins anew whenever more has arrived.

    Args:
        connected: Connection to the master, which says how long to try.
        what: The transfer, for the log.
        run: Does all that is left of it.
        measure: Returns the bytes that have arrived; called after an error.
        passing: Errors after which it goes on; `GoneError` is never one.
    """
    attempts, furthest = connected.attempt(), 0
    while True:
        try:
            run()
        except passing as error:
            if isinstance(error, errors.GoneError):
                raise
            arrived = measure()
            if arrived > furthest:
                attempts, furthest = connected.attempt(), arrived
            elif not attempts.pause(what, error):
                raise
        else:
            return
