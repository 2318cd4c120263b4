"""The lock of a home directory, and the end of a master that has lost it.

The lock by which it is the only master, and the socket on which it answers, are files there. Where
the disk was mounted anew they are others, which nobody holds and on which nobody listens.
"""

import contextlib
import logging
import threading
from collections.abc import Callable, Iterator
from typing import Final, Self

from quintain import errors
from quintain.client.home import home as home_lib
from quintain.client.home import master_lock
from quintain.client.http import unix_sockets

logger = logging.getLogger(__name__)

_LOOK_SECS: Final = 1.0
_ANSWER_SECS: Final = 5.0


class MasterRunningError(errors.StateError):
    """Another process is the master of this home directory."""


@contextlib.contextmanager
def hold_lock(home: home_lib.Home) -> Iterator[master_lock.HeldLock]:
    """Holds the lock of a home directory.

    Raises:
        MasterRunningError: If another process holds it.
    """
    with contextlib.ExitStack() as lock:
        try:
            held = lock.enter_context(master_lock.hold(home.path))
        except master_lock.LockedError as error:
            raise MasterRunningError(
                f"A master already runs for {home.path} ({error}). `quintain master status` shows "
                "it, `quintain master stop` ends it; another home directory (QUINTAIN_HOME) can "
                "have one of its own."
            ) from error
        yield held


class HomeWatch:
    """Looks every second, in a thread, whether lock and socket are still those of this master.

    Args:
        home: The home directory, in whose socket the master listens.
        lock: Its lock.
        on_loss: Called with a message, once, when they are not.
    """

    def __init__(
        self, home: home_lib.Home, lock: master_lock.HeldLock, *, on_loss: Callable[[str], None]
    ) -> None:
        self._home, self._lock, self._on_loss = home, lock, on_loss
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="quintain-home", daemon=True)

    def __enter__(self) -> Self:
        """Starts the thread."""
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Ends it."""
        self._is_over.set()
        self._thread.join()

    def is_ours(self) -> bool:
        """Returns whether the home directory is still this master's.

        Raises:
            OSError: If its disk can't be read now.
        """
        try:
            # A disk that was mounted anew may number its files as before; a socket can't deceive.
            if self._lock.is_there():
                unix_sockets.connect(self._home.socket, _ANSWER_SECS).close()
                return True
        except (ConnectionRefusedError, FileNotFoundError):
            pass
        return False

    def _run(self) -> None:
        while not self._is_over.wait(_LOOK_SECS):
            try:
                if self.is_ours():
                    continue
            except (OSError, errors.QuintainError) as error:
                logger.debug("The home directory is looked at again: %s", error)
                continue
            self._on_loss(
                f"{self._home.path}: its lock or its socket is gone, as where a disk was mounted "
                "anew. This master ends, and trials go on: start a new one when the disk is there."
            )
            return
