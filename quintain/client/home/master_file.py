"""`master.json` in the home directory: where the running master is."""

import dataclasses
import functools
import json
import logging
import pathlib
from typing import Final

from quintain.client import address as address_lib
from quintain.files import atomic_write, disk_errors
from quintain.records import process_identity

logger = logging.getLogger(__name__)

FILE_NAME: Final = "master.json"


@dataclasses.dataclass(frozen=True)
class MasterFile:
    """Content of master.json."""

    url: str
    """Where the master answers; see `address_lib.Address`."""

    token: str = dataclasses.field(repr=False)
    """What it recognises its clients by."""

    pid: int
    """Number of its process."""

    mark: str
    """What no other process of this number has; see `process_identity.find_mark`."""

    @property
    def address(self) -> address_lib.Address:
        """Address to connect to."""
        return address_lib.Address(self.url, self.token)

    @property
    def name(self) -> str:
        """Name of the master in messages."""
        return f"process {self.pid}"

    def is_alive(self) -> bool:
        """Returns whether the process that wrote the file is still there."""
        return process_identity.find_mark(self.pid) == self.mark


def read(home: pathlib.Path) -> MasterFile | None:
    """Returns what the file says, or None if there is none that can be understood.

    Raises:
        OSError: If its disk is broken or gone: then a master may run there.
    """
    try:
        content = disk_errors.read_json(home / FILE_NAME)
        return MasterFile(
            str(content["url"]),
            str(content["token"]),
            int(content["pid"]),
            str(content["mark"]),
        )
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, TypeError) as error:
        if disk_errors.is_lost(error):
            raise
        _warn_once(f"{home / FILE_NAME}: can't be read, so no master is found by it: {error}")
        return None


def write(home: pathlib.Path, content: MasterFile) -> None:
    """Replaces the file at once. Only its owner can read it, for it holds the token."""
    text = json.dumps(dataclasses.asdict(content), indent=2)
    atomic_write.write_atomically(home / FILE_NAME, text, mode=0o600)


@functools.cache
def _warn_once(text: str) -> None:
    # Who waits for a master reads the file many times a second.
    logger.warning("%s", text)
