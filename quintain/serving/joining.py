"""Runs requests side by side, for a model that shares its work between them itself."""

import concurrent.futures
import time
from collections.abc import Callable, Sequence
from typing import Any

from quintain.serving import batching


class Joiner:
    """Calls a function for each request in a thread of its own; a `Batcher` that does not gather.

    No request waits for others to come, or for those before it to be done.
    """

    def __init__(
        self,
        run: Callable[[Sequence[Any], Callable[[], bool]], list[Any]],
        *,
        max_requests: int,
        max_queue: int,
        observe: Callable[[int, float], None] = lambda size, secs: None,
    ) -> None:
        """Starts no thread yet.

        Args:
            run: Maps texts to as many results; called by several threads at the same time. It is
                given a function that says whether somebody waits for them still, and raises what it
                likes where nobody does.
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

    def submit(self, texts: Sequence[Any], timeout_secs: float = float("inf")) -> batching.Results:
        """Adds the texts of a request; see `Batcher.submit`.

        Raises:
            QueueFullError: If too many texts are waiting, or the joiner is closed.
        """
        job = batching.Job.build(texts, timeout_secs)
        self._waiting.enter(len(texts))
        job.results.add_done_callback(lambda _: self._waiting.leave(len(texts)))
        try:
            self._threads.submit(self._answer, job)
        except RuntimeError:  # The system has no more threads, or the end came meanwhile.
            job.results.cancel()
            raise
        return job.results

    def close(self) -> None:
        """Does what is waiting and ends the threads."""
        self._waiting.close()
        self._threads.shutdown()

    def _answer(self, job: batching.Job) -> None:
        if not job.begin():
            return
        start = time.monotonic()
        try:
            results = self._run(job.texts, lambda: job.results.is_wanted)
        except BaseException as error:  # noqa: BLE001 - whoever waits has to know
            job.results.set_exception(error)
            return
        self._observe(len(job.texts), time.monotonic() - start)
        job.results.set_result(results)
