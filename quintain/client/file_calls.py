"""Files that the process of a trial gets from its master, or sends to it."""

import contextlib
import functools
import pathlib
import urllib.parse
from collections.abc import Iterator, Mapping
from typing import Any

from quintain import errors
from quintain.client.http import connection as connection_lib
from quintain.client.http import transfers
from quintain.records.rows import codec
from quintain.records.views import file_listing

_LONG_SECS = 1800.0
"""Time for the master to read a checkpoint again, of a hundred GB, say."""


class FileCalls:
    """The calls of one process. All go on where a connection broke.

    All raise `GoneError` if this run is not wanted any more, and `MasterUnreachableError` if the
    master is away for longer than the connection waits.

    Args:
        connected: Connection to the master.
        trial_id: The trial.
        launch_id: Name of this start.

    Attributes:
        is_lost: Whether the master was away for longer than that.
    """

    def __init__(
        self, connected: connection_lib.Connection, *, trial_id: int, launch_id: str
    ) -> None:
        self._connection = connected
        self.is_lost = False
        self._path = f"/api/v1/trials/{trial_id}/runs/{launch_id}/files"

    def find_places(self) -> file_listing.Places:
        """Returns where the master's directories are."""
        return codec.from_plain(file_listing.Places, self._ask("GET", "/places"))

    def list_code(self) -> file_listing.Listing:
        """Returns what the code of the trial consists of."""
        return codec.from_plain(file_listing.Listing, self._ask("GET", "/code"))

    def list_checkpoint(self, uuid: str) -> file_listing.Listing:
        """Returns the files of the checkpoint that the trial goes on from.

        Raises:
            NotFoundError: If it is not there.
        """
        return codec.from_plain(file_listing.Listing, self._ask("GET", f"/checkpoints/{uuid}"))

    def fetch_code(self, name: str, target: pathlib.Path, num_bytes: int) -> None:
        """Fetches a file of the code; see `transfers.fetch_file`."""
        self._fetch(f"/code/{_quote(name)}", target, num_bytes)

    def fetch_checkpoint(self, uuid: str, name: str, target: pathlib.Path, num_bytes: int) -> None:
        """Fetches a file of a checkpoint; see `transfers.fetch_file`."""
        self._fetch(f"/checkpoints/{uuid}/{_quote(name)}", target, num_bytes)

    def send_checkpoint(self, uuid: str, directory: pathlib.Path, sizes: Mapping[str, int]) -> None:
        """Sends files of a checkpoint, and lets the master make it one.

        Args:
            uuid: The checkpoint.
            directory: Where its files are.
            sizes: Bytes of each file by its path.

        Raises:
            CheckpointError: If the master can't keep it, as its disk is full, say.
            ConfigError: If the master refuses it.
        """
        attempts = self._connection.attempt()
        while True:
            try:
                if self._send_missing(uuid, directory, sizes):
                    return
                self._ask("POST", f"/uploads/{uuid}/commit", {}, timeout_secs=_LONG_SECS)
            except errors.StateError as error:
                # The master was restarted, say, or a file is not what was sent.
                if isinstance(error, errors.GoneError) or not attempts.pause("the upload", error):
                    raise
            else:
                return

    def discard_checkpoint(self, uuid: str) -> None:
        """Lets the master forget what was sent of a checkpoint."""
        self._ask("DELETE", f"/uploads/{uuid}")

    def list_events(self) -> dict[str, int]:
        """Returns the event files that the master has of the trial, with their sizes."""
        return dict(self._ask("GET", "/events"))

    def send_events(self, name: str, source: pathlib.Path, offset: int) -> None:
        """Sends an event file from an offset on; the master has what is before."""
        with self._noting_loss():
            transfers.send_file(
                self._connection,
                f"{self._path}/events/{_quote(name)}",
                source,
                offset=offset,
                ask_offset=lambda: self.list_events().get(name, 0),
            )

    def _send_missing(self, uuid: str, directory: pathlib.Path, sizes: Mapping[str, int]) -> bool:
        """Sends what is missing; returns whether the master has made it a checkpoint before."""

        def begin() -> dict[str, Any]:
            answer: dict[str, Any] = self._ask("POST", f"/uploads/{uuid}", {"sizes": dict(sizes)})
            return answer

        def ask_offset(name: str) -> int:
            answer = begin()
            return sizes[name] if answer["is_complete"] else int(answer["files"].get(name, 0))

        begun = begin()
        for name, num_bytes in sizes.items():
            if begun["is_complete"]:
                break
            if begun["files"].get(name) == num_bytes:
                continue
            with self._noting_loss():
                transfers.send_file(
                    self._connection,
                    f"{self._path}/uploads/{uuid}/files/{_quote(name)}",
                    directory / name,
                    offset=begun["files"].get(name, 0),
                    ask_offset=functools.partial(ask_offset, name),
                )
        return bool(begun["is_complete"])

    def _fetch(self, path: str, target: pathlib.Path, num_bytes: int) -> None:
        with self._noting_loss():
            transfers.fetch_file(self._connection, self._path + path, target, num_bytes)

    def _ask(
        self, method: str, path: str, body: object = None, timeout_secs: float | None = None
    ) -> Any:
        with self._noting_loss():
            return self._connection.request(
                method, self._path + path, body=body, timeout_secs=timeout_secs, is_repeatable=True
            )

    @contextlib.contextmanager
    def _noting_loss(self) -> Iterator[None]:
        try:
            yield
        except errors.MasterUnreachableError:
            self.is_lost = True
            raise


def _quote(name: str) -> str:
    return urllib.parse.quote(name)
