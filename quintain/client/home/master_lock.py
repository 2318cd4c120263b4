"""`master.lock` in the home directory: held by the running master, wherever it runs.

The lock is what makes a master the only one; the system lets go of it however the process ends.
What is written in the file says who holds it, for messages: it may be of a master that was killed.
"""

import contextlib
import dataclasses
import fcntl
import json
import os
import pathlib
import time
from collections.abc import Iterator
from typing import IO, Final

from quintain.records import process_identity

FILE_NAME: Final = "master.lock"

_NUM_ATTEMPTS: Final = 5
_ATTEMPT_SECS: Final = 0.05
"""Whoever looks whether the lock is held holds it for less than this."""


@dataclasses.dataclass(frozen=True)
class Holder:
    """Current or last holder of the lock."""

    pid: int
    """Number of its process."""

    host: str
    """Name of its machine, or container."""

    place: str
    """`process_identity.find_place` of its process."""

    @property
    def is_elsewhere(self) -> bool:
        """True if it is on another machine or in another container than this process."""
        return self.place != process_identity.find_place()


class LockedError(Exception):
    """Somebody else holds the lock."""

    def __init__(self, holder: Holder | None) -> None:
        super().__init__("process unknown" if holder is None else describe(holder))


class HeldLock:
    """The lock of a home directory, held by this process."""

    def __init__(self, home: pathlib.Path) -> None:
        """Takes it.

        Raises:
            LockedError: If another process holds it.
        """
        self._home = home
        self._file = _take(home)

    def is_there(self) -> bool:
        """Returns whether the file that is held is the one in the home directory.

        Raises:
            OSError: If that has none, or its disk is lost.
        """
        return os.path.samestat(os.stat(self._home / FILE_NAME), os.fstat(self._file.fileno()))

    def release(self) -> None:
        """Lets go of it. Where the disk is lost, the file goes on naming this process."""
        with contextlib.suppress(OSError):
            self._file.truncate(0)
        with contextlib.suppress(OSError):
            self._file.close()


def _take(home: pathlib.Path) -> IO[str]:
    with contextlib.ExitStack() as opened:
        file = opened.enter_context(open(home / FILE_NAME, "a+", encoding="utf-8"))
        if not any(_try_lock(file, attempt) for attempt in range(_NUM_ATTEMPTS)):
            raise LockedError(read_holder(home))
        file.truncate(0)
        json.dump(dataclasses.asdict(_describe_own()), file)
        file.flush()
        opened.pop_all()
    return file


def _describe_own() -> Holder:
    return Holder(os.getpid(), os.uname().nodename, process_identity.find_place())


@contextlib.contextmanager
def hold(home: pathlib.Path) -> Iterator[HeldLock]:
    """Holds the lock of a home directory.

    Raises:
        LockedError: If another process holds it.
    """
    held = HeldLock(home)
    try:
        yield held
    finally:
        held.release()


def _try_lock(file: IO[str], attempt: int) -> bool:
    time.sleep(_ATTEMPT_SECS if attempt else 0.0)
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def find_elsewhere(home: pathlib.Path) -> Holder | None:
    """Returns who holds the lock on another machine or in another container, or None."""
    holder = read_holder(home)
    if holder is None or not holder.is_elsewhere:
        return None
    with open(home / FILE_NAME, encoding="utf-8") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return holder
    return None


def read_holder(home: pathlib.Path) -> Holder | None:
    """Returns who holds the lock or held it last, or None if nobody or that is not known."""
    try:
        content = json.loads((home / FILE_NAME).read_text(encoding="utf-8"))
        return Holder(int(content["pid"]), str(content["host"]), str(content["place"]))
    except (OSError, ValueError, KeyError, TypeError):
        return None


def describe(holder: Holder) -> str:
    """Returns words for who holds the lock."""
    place = f" on {holder.host}" if holder.is_elsewhere else ""
    return f"process {holder.pid}{place}"
