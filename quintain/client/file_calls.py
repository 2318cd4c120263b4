"""Files that the process of a trial gets from its master, or sends to it."""

# Declarations have no bodies; `call` gives them one.
# mypy: disable-error-code="empty-body"

import contextlib
import functools
import pathlib
import urllib.parse
from collections.abc import Iterator, Mapping
from typing import Any, Final

from typing_extensions import override

from quintain import errors
from quintain.client import call_table
from quintain.client.call_table import call
from quintain.client.http import connection as connection_lib
from quintain.client.http import http_calls, transfers
from quintain.records.views import file_listing

_FILES: Final = "/trials/{trial_id}/runs/{launch_id}/files"
_LONG_SECS: Final = 1800.0
"""Time for the master to read a checkpoint again, of a hundred GB, say."""


class FileCalls(http_calls.HttpCalls):
    """The calls of one process. All go on where a connection broke.

    All raise `GoneError` if this run is not wanted any more, and `MasterUnreachableError` if the
    master is away for longer than the connection waits.

    Attributes:
        is_lost: Whether the master was away for longer than that.
    """

    def __init__(
        self, connected: connection_lib.Connection, *, trial_id: int, launch_id: str
    ) -> None:
        super().__init__(connected, trial_id=trial_id, launch_id=launch_id)
        self.is_lost = False
        self._path = f"{call_table.PREFIX}/trials/{trial_id}/runs/{launch_id}/files"

    @override
    def ask(self, call: call_table.Call, arguments: Mapping[str, Any]) -> Any:
        with self._noting_loss():
            return super().ask(call, arguments)

    @call("GET", f"{_FILES}/places")
    def find_places(self) -> file_listing.Places:
        """Returns where the master's directories are."""

    @call("GET", f"{_FILES}/code")
    def list_code(self) -> file_listing.Listing:
        """Returns what the code of the trial consists of."""

    @call("GET", f"{_FILES}/checkpoints/{{uuid}}")
    def list_checkpoint(self, uuid: str) -> file_listing.Listing:
        """Returns the files of the checkpoint that the trial goes on from.

        Raises:
            NotFoundError: If it is not there.
        """

    @call("POST", f"{_FILES}/uploads/{{uuid}}", is_repeatable=True)
    def begin_checkpoint(self, uuid: str, sizes: Mapping[str, int]) -> dict[str, Any]:
        """Begins to send a checkpoint, or goes on with it, and returns what is there of it.

        Returns:
            `files`, bytes by path; and `is_complete`, whether the master has made it a checkpoint.
        """

    @call("POST", f"{_FILES}/uploads/{{uuid}}/commit", timeout_secs=_LONG_SECS, is_repeatable=True)
    def commit_checkpoint(self, uuid: str) -> None:
        """Lets the master make a checkpoint of what was sent."""

    @call("DELETE", f"{_FILES}/uploads/{{uuid}}")
    def discard_checkpoint(self, uuid: str) -> None:
        """Lets the master forget what was sent of a checkpoint."""

    @call("GET", f"{_FILES}/events")
    def list_events(self) -> dict[str, int]:
        """Returns the event files that the master has of the trial, with their sizes."""

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

        def send() -> None:
            if not self._send_missing(uuid, directory, sizes):
                self.commit_checkpoint(uuid)

        # The master was restarted, say, or a file is not what was sent.
        passing = (errors.StateError,)
        transfers.keep_trying(self._connection, "the upload", send, lambda: 0, passing)

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

        def ask_offset(name: str) -> int:
            answer = self.begin_checkpoint(uuid, sizes)
            return sizes[name] if answer["is_complete"] else int(answer["files"].get(name, 0))

        begun = self.begin_checkpoint(uuid, sizes)
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

    @contextlib.contextmanager
    def _noting_loss(self) -> Iterator[None]:
        try:
            yield
        except errors.MasterUnreachableError:
            self.is_lost = True
            raise


def _quote(name: str) -> str:
    return urllib.parse.quote(name)
