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
    attempts = connected.attempt()
    if num_bytes is None:
        with target.open("wb") as file:
            connected.download(path, file)
        return
    target.touch()
    if target.stat().st_size > num_bytes:
        os.truncate(target, 0)
    while (offset := target.stat().st_size) < num_bytes:
        try:
            with target.open("ab") as file:
                connected.download(path, file, offset=offset)
        except (*_PASSING, errors.DataError) as error:
            if isinstance(error, errors.DataError):  # It can't be had by parts.
                os.truncate(target, 0)
            if target.stat().st_size > offset:
                attempts = connected.attempt()
            elif not attempts.pause(f"GET {path}", error):
                raise
        else:
            break
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
    attempts = connected.attempt()
    furthest = -1
    with source.open("rb") as file:
        num_bytes = os.fstat(file.fileno()).st_size
        while offset < num_bytes:
            if offset > furthest:
                attempts, furthest = connected.attempt(), offset
            file.seek(offset)
            try:
                answer = connected.send_bytes(
                    path, file.read(PIECE_BYTES), query={"offset": offset}
                )
                offset = int(answer["received"])
            except (*_PASSING, errors.StateError) as error:
                if isinstance(error, errors.GoneError) or not attempts.pause(f"PUT {path}", error):
                    raise
                offset = ask_offset()
