"""Lets a master be found again after the disk of its home directory was mounted anew.

The lock by which it is the only master, and the socket on which it answers, are files there. They
are others then, which nobody holds and on which nobody listens.
"""

import contextlib
import logging
import socket
import threading
from collections.abc import Callable, Iterator
from typing import Final, Self

from quintain import errors
from quintain.client.home import home as home_lib
from quintain.client.home import master_file, master_lock
from quintain.client.http import unix_sockets
from quintain.master.cleanup import home_identity
from quintain.store import store as store_lib

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
    """Looks every second, in a thread, whether lock and socket are still those of this master."""

    def __init__(
        self,
        home: home_lib.Home,
        lock: master_lock.HeldLock,
        store: store_lib.Store,
        file: master_file.MasterFile,
        *,
        listen_on: Callable[[socket.socket], None],
        on_loss: Callable[[str], None],
    ) -> None:
        """Stores its parts.

        Args:
            home: The home directory, in whose socket the master listens.
            lock: Its lock.
            store: Its store, which may be a file there.
            file: What `master.json` says.
            listen_on: Takes a socket to answer on.
            on_loss: Is told that another master has taken the lock.
        """
        self._home, self._lock, self._store, self._file = home, lock, store, file
        self._home_id = home_identity.read_id(home.path)
        self._listen_on, self._on_loss = listen_on, on_loss
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

    def look(self) -> None:
        """Looks once, and takes lock and socket anew where that is needed.

        Raises:
            OSError: If the disk is lost, or was never there.
            LockedError: If another master has the home now.
        """
        # A disk that comes back may number its files as it did before; a socket can't deceive.
        if not (self._lock.is_there() and self._can_be_reached()):
            if home_identity.read_id(self._home.path) != self._home_id:
                return  # It is another home; the database says that it is not there.
            self._lock.renew()
            self._listen_on(unix_sockets.listen(self._home.socket))
            master_file.write(self._home.path, self._file)
            logger.warning("%s: the master answers there again.", self._home.path)

    def _can_be_reached(self) -> bool:
        try:
            unix_sockets.connect(self._home.socket, _ANSWER_SECS).close()
        except (ConnectionRefusedError, FileNotFoundError):
            return False
        return True

    def _run(self) -> None:
        while not self._is_over.wait(_LOOK_SECS):
            try:
                self.look()
            except master_lock.LockedError as error:
                self._on_loss(
                    f"{self._home.path}: its disk was lost, and another master has taken it over "
                    f"({error}). This one ends."
                )
                return
            except (OSError, errors.QuintainError) as error:
                logger.debug("The home directory is looked at again: %s", error)
            except Exception:
                logger.exception("The home directory could not be looked at.")
