"""`master.json` in the home directory: where the running master is."""

import dataclasses
import json
import os
import pathlib
from typing import Final

from quintain.client import connection
from quintain.records import process_identity

FILE_NAME: Final = "master.json"


@dataclasses.dataclass(frozen=True)
class MasterFile:
    """What the file says."""

    url: str
    """Where the master answers; see `connection.Address`."""

    token: str = dataclasses.field(repr=False)
    """What it recognises its clients by."""

    pid: int
    """Number of its process."""

    mark: str
    """What no other process of this number has; see `process_identity.find_mark`."""

    @property
    def address(self) -> connection.Address:
        """Where to connect to."""
        return connection.Address(self.url, self.token)

    def is_alive(self) -> bool:
        """Returns whether the process that wrote the file is still there."""
        return process_identity.find_mark(self.pid) == self.mark


def read(home: pathlib.Path) -> MasterFile | None:
    """Returns what the file says, or None if there is none that can be read.

    Args:
        home: The home directory of the platform.
    """
    try:
        content = json.loads((home / FILE_NAME).read_text(encoding="utf-8"))
        return MasterFile(
            str(content["url"]),
            str(content["token"]),
            int(content["pid"]),
            str(content["mark"]),
        )
    except (OSError, ValueError, KeyError, TypeError):
        return None


def write(home: pathlib.Path, content: MasterFile) -> None:
    """Replaces the file at once. Only its owner can read it, for it holds the token.

    Args:
        home: The home directory of the platform.
        content: What to write.
    """
    path = home / FILE_NAME
    temporary = path.with_name(f"{FILE_NAME}.{os.getpid()}")
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        json.dump(dataclasses.asdict(content), file, indent=2)
    temporary.replace(path)
