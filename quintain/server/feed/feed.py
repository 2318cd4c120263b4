"""Tells all who follow a master what has changed: one reader of the store for all of them.

A thread reads the store when something was written, a moment later, so that what is written in a
burst is read once. Who follows has a queue; one whose queue is full is given up, and comes back
with the cursor of what it saw last.
"""

import asyncio
import contextlib
import logging
import threading
import time
from collections.abc import Callable
from typing import Final, Self

from quintain import errors
from quintain.records.views import master_status
from quintain.server.feed import changes, cursors
from quintain.store import store as store_lib

logger = logging.getLogger(__name__)

MOST_WAITING: Final = 256
"""Items in the queue of a follower that is not given up yet."""

MOST_BEHIND: Final = 10_000
"""Changes to tell somebody who comes back; with more, it is quicker to fetch everything anew."""

_GATHER_SECS: Final = 0.05
_PAUSE_SECS: Final = 0.12
"""Least time between two looks at the store, so that a busy search is not slowed down by them."""
_STATUS_SECS: Final = 1.0

Status = master_status.MasterStatus | master_status.MasterSummary

Item = changes.Batch | Status
"""What followers are told."""


class Follower:
    """Somebody who follows, in an event loop.

    Args:
        loop: Where `next` is awaited.
        most_waiting: Items that may wait.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, most_waiting: int = MOST_WAITING) -> None:
        self._loop = loop
        self._queue: asyncio.Queue[Item | None] = asyncio.Queue(most_waiting)
        self._is_over = False

    def tell(self, item: Item | None) -> None:
        """Adds an item, from any thread; None ends it."""
        with contextlib.suppress(RuntimeError):  # The loop has ended.
            self._loop.call_soon_threadsafe(self._put, item)

    async def next(self) -> Item | None:
        """Returns the next item, or None if there will be none any more."""
        return None if self._is_over else await self._queue.get()

    def _put(self, item: Item | None) -> None:
        if item is None or self._queue.full():
            self._is_over = True
            while not self._queue.empty():
                self._queue.get_nowait()
            item = None
        self._queue.put_nowait(item)


class Feed:
    """Reads changes, and the status of the master, for all who follow.

    Args:
        store: What is read.
        find_status: Returns what runs where, which needs no store.
    """

    def __init__(
        self,
        store: store_lib.Store,
        find_status: Callable[[], Status],
    ) -> None:
        self._store = store
        self.find_status = find_status
        self._followers: set[Follower] = set()
        self._newest = 0
        self._status: Status | None = None
        self._lock = threading.Lock()
        self._wake = threading.Event()
        self._is_closed = False
        self._thread = threading.Thread(target=self._run, name="quintain-feed", daemon=True)

    def __enter__(self) -> Self:
        """Starts the thread."""
        self._store.add_listener(self._on_write)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Ends what followers are told, and the thread."""
        with self._lock:
            self._is_closed = True
            for follower in self._followers:
                follower.tell(None)
            self._followers.clear()
        self._wake.set()
        self._thread.join()

    def add(self, follower: Follower) -> int:
        """Adds a follower, who is told all that comes after the change whose number is returned.

        The status is told at once.

        Raises:
            StoreError: If the store can't be read.
        """
        status = self.find_status()
        with self._lock:
            if not self._followers:
                with self._store.reading() as session:
                    self._newest = max(session.get_change_bounds()[1], self._newest)
            self._followers.add(follower)
            follower.tell(None if self._is_closed else status)
            newest = self._newest
        self._wake.set()
        return newest

    def remove(self, follower: Follower) -> None:
        """Forgets a follower."""
        with self._lock:
            self._followers.discard(follower)

    def find_start(self, cursor: str, newest: int) -> tuple[str, int | None]:
        """Returns what cursors begin with, and from which change somebody goes on.

        Returns:
            None for the change if too much has happened since, or the cursor is not of this store.
        """
        with self._store.reading() as session:
            home = cursors.find_home(session)
            oldest, last = session.get_change_bounds()
        start = cursors.parse(cursor, home)
        if start is None or not oldest <= start <= last or newest - start > MOST_BEHIND:
            return home, None
        return home, start

    def read(self, after: int) -> changes.Batch | None:
        """Returns the next changes after one, or None if there are none.

        Raises:
            StoreError: If the store can't be read, or what is in it is damaged.
        """
        try:
            with self._store.reading() as session:
                return changes.read(session, after)
        except (ValueError, TypeError, AttributeError, KeyError) as error:
            raise errors.StoreError(f"What has changed is damaged: {error}.") from error

    def _on_write(self) -> None:
        if self._followers:
            self._wake.set()

    def _run(self) -> None:
        looked_at_secs = 0.0
        while not self._is_closed:
            has_changed = self._wake.wait(_STATUS_SECS if self._followers else None)
            if has_changed:
                pause_secs = looked_at_secs + _PAUSE_SECS - time.monotonic()
                time.sleep(max(pause_secs, _GATHER_SECS))
                self._wake.clear()
                looked_at_secs = time.monotonic()
            try:
                self._tell_changes()
                self._tell_status()
            except errors.StoreError as error:
                logger.warning("The page can't be told what has changed: %s", error)
                self._start_anew()

    def _tell_changes(self) -> None:
        while self._followers and (batch := self.read(self._newest)) is not None:
            with self._lock:
                self._newest = max(batch.until, self._newest)
                self._tell_all(batch)

    def _tell_status(self) -> None:
        if not self._followers:
            return
        status = self.find_status()
        with self._lock:
            if status != self._status:
                self._status = status
                self._tell_all(status)

    def _tell_all(self, item: Item) -> None:
        for follower in self._followers:
            follower.tell(item)

    def _start_anew(self) -> None:
        """Gives up all followers, who come back, and what could not be read."""
        with self._lock, contextlib.suppress(errors.StoreError):
            for follower in self._followers:
                follower.tell(None)
            self._followers.clear()
            with self._store.reading() as session:
                self._newest = session.get_change_bounds()[1]
