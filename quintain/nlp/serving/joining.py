"""Runs requests side by side, for a model that shares its work between them itself."""

import concurrent.futures
import time
from collections.abc import Callable, Sequence
from typing import Any

from quintain.nlp.serving import batching


class Joiner:
    """Calls a function for each request in a thread of its own; a `Batcher` that does not gather.

    No request waits for others to come, or for those before it to be done.
    """

    def __init__(
        self,
        run: Callable[[Sequence[Any]], list[Any]],
        *,
        max_requests: int,
        max_queue: int,
        observe: Callable[[int, float], None] = lambda size, secs: None,
    ) -> None:
        """Starts no thread yet.

        Args:
            run: Maps texts to as many results; called by several threads at the same time.
            max_requests: Most requests that run at the same time.
            max_queue: Most texts that wait.
            observe: Told the size of each request and the seconds that it took.
        """
        self._run = run
        self._observe = observe
        self._waiting = batching.WaitingTexts(max_queue)
        self._threads = concurrent.futures.ThreadPoolExecutor(max_requests, "quintain-requests")

    @property
    def num_waiting(self) -> int:
        """Texts that wait or are being worked on."""
        return self._waiting.count

    def submit(
        self, texts: Sequence[Any], timeout_secs: float = float("inf")
    ) -> "concurrent.futures.Future[list[Any]]":
        """Adds the texts of a request; see `Batcher.submit`.

        Raises:
            QueueFullError: If too many texts are waiting, or the joiner is closed.
        """
        self._waiting.enter(len(texts))
        future = self._threads.submit(self._answer, texts, time.monotonic() + timeout_secs)
        future.add_done_callback(lambda _: self._waiting.leave(len(texts)))
        return future

    def close(self) -> None:
        """Does what is waiting and ends the threads."""
        self._waiting.close()
        self._threads.shutdown()

    def _answer(self, texts: Sequence[Any], deadline: float) -> list[Any]:
        start = time.monotonic()
        if start >= deadline:
            raise concurrent.futures.CancelledError
        results = self._run(texts)
        self._observe(len(texts), time.monotonic() - start)
        return results
