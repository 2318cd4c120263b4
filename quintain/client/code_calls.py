"""Sends the code of an experiment to a master that can't see the directory it is in."""

import base64
import dataclasses
import os
import pathlib
from typing import IO, Any, Final

from quintain.client.http import connection

_PREFIX: Final = "/api/v1"
_PIECE_BYTES: Final = 3 * 2**20
"""A piece with what base64 adds is well below the largest request of a user."""


@dataclasses.dataclass(frozen=True)
class SentCode:
    """Code that a master has."""

    name: str
    """What the master calls it."""


def to_fields(code: pathlib.Path | SentCode | None) -> dict[str, Any]:
    """Returns what says to a master where the code of a new experiment is."""
    if isinstance(code, SentCode):
        return {"upload": code.name}
    return {"model_dir": None if code is None else str(code.absolute())}


class CodeCalls:
    """Sends code to a master.

    Args:
        connected: Connection to the master.
    """

    def __init__(self, connected: connection.Connection) -> None:
        self._connection = connected

    def send(self, archive: IO[bytes]) -> SentCode:
        """Sends a `.tar` file, for one new experiment.

        Args:
            archive: The file; it is read from its beginning.

        Raises:
            MasterUnreachableError: If the connection is lost for long.
        """
        answer = self._connection.request("POST", f"{_PREFIX}/uploads", is_repeatable=True)
        path, offset = f"{_PREFIX}/uploads/{answer['name']}", archive.seek(0, os.SEEK_SET)
        while piece := archive.read(_PIECE_BYTES):
            body = {"offset": offset, "data": base64.b64encode(piece).decode()}
            self._connection.request("PUT", path, body=body)
            offset += len(piece)
        return SentCode(answer["name"])
