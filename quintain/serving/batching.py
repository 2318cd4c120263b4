"""Batches of requests for a model, or requests side by side where the model shares its work."""

import concurrent.futures
import dataclasses
import queue
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any, Final

from typing_extensions import override

from quintain import errors

_END: Final = object()


class QueueFullError(errors.QuintainError):
    """More texts are waiting than may."""


class Results(concurrent.futures.Future[list[Any]]):
    """The results of a request, as they will be."""

    is_wanted = True
    """Whether somebody waits for them; also what is worked on already can be given up."""

    @override
    def cancel(self) -> bool:
        self.is_wanted = False
        return super().cancel()


@dataclasses.dataclass(frozen=True)
class Job:
    """The texts of a request, and when nobody wants the results any more."""

    texts: Sequence[Any]
    results: Results
    deadline: float

    @classmethod
    def build(cls, texts: Sequence[Any], timeout_secs: float) -> "Job":
        """Returns the job of a request that came now."""
        return cls(texts, Results(), time.monotonic() + timeout_secs)

    def begin(self) -> bool:
        """Returns whether the results are wanted still; where they are not, they are cancelled."""
        if time.monotonic() >= self.deadline:
            self.results.cancel()
        return self.results.set_running_or_notify_cancel()


class WaitingTexts:
    """Counts the texts that wait or are being worked on, and refuses too many."""

    def __init__(self, max_queue: int) -> None:
        self._max_queue = max_queue
        self._lock = threading.Lock()
        self._count = 0
        self._is_closed = False

    @property
    def count(self) -> int:
        """Number of requests."""
        with self._lock:
            return self._count

    def enter(self, count: int) -> None:
        """Counts the texts of a request.

        Raises:
            QueueFullError: If too many are waiting, or no more are taken.
        """
        with self._lock:
            if self._is_closed:
                raise QueueFullError("the server is being shut down.")
            if self._count and self._count + count > self._max_queue:
                raise QueueFullError(
                    f"{self._count} texts are waiting, and at most {self._max_queue} may. "
                    "Try again later."
                )
            self._count += count

    def leave(self, count: int) -> None:
        """Counts texts no longer."""
        with self._lock:
            self._count -= count

    def close(self) -> bool:
        """Takes no more; returns whether it did before."""
        with self._lock:
            was_open, self._is_closed = not self._is_closed, True
            return was_open


class Batcher:
    """Runs a function on batches in a thread of its own.

    A batch is run when it is full, or `max_delay_secs` after its first text came, whichever is
    first. The texts of one request stay together.
    """

    def __init__(
        self,
        run: Callable[[Sequence[Any]], list[Any]],
        *,
        max_batch_size: int,
        max_delay_secs: float,
        max_queue: int,
        observe: Callable[[int, float], None] = lambda size, secs: None,
    ) -> None:
        """Starts the thread.

        Args:
            run: Maps texts to as many results.
            max_batch_size: Most texts of a batch. A request with more makes a batch of its own.
            max_delay_secs: How long the first text of a batch waits for others.
            max_queue: Most texts that wait.
            observe: Told the size of each batch and the seconds that it took.
        """
        self._run = run
        self._max_batch_size = max_batch_size
        self._max_delay_secs = max_delay_secs
        self._observe = observe
        self._jobs: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._waiting = WaitingTexts(max_queue)
        self._lock = threading.Lock()
        self._thread = threading.Thread(target=self._work, name="quintain-batches", daemon=True)
        self._thread.start()

    @property
    def num_waiting(self) -> int:
        """Texts that wait or are being worked on."""
        return self._waiting.count

    def submit(self, texts: Sequence[Any], timeout_secs: float = float("inf")) -> Results:
        """Adds the texts of a request.

        Returns:
            The results, or the exception that `run` raised on them.

        Raises:
            QueueFullError: If too many texts are waiting, or the batcher is closed.
        """
        job = Job.build(texts, timeout_secs)
        with self._lock:  # Nothing may come after the end.
            self._waiting.enter(len(texts))
            self._jobs.put(job)
        return job.results

    def close(self) -> None:
        """Does what is waiting and ends the thread."""
        with self._lock:
            if not self._waiting.close():
                return
            self._jobs.put(_END)
        self._thread.join()

    def _work(self) -> None:
        held: Any = None
        while True:
            first = self._jobs.get() if held is None else held
            if first is _END:
                return
            batch, held = self._gather(first)
            self._process(batch)

    def _gather(self, first: Job) -> tuple[list[Job], Any]:
        batch, size = [first], len(first.texts)
        end = time.monotonic() + self._max_delay_secs
        while size < self._max_batch_size:
            try:
                job = self._jobs.get(timeout=max(end - time.monotonic(), 0.0))
            except queue.Empty:
                break
            if job is _END or size + len(job.texts) > self._max_batch_size:
                return batch, job
            batch.append(job)
            size += len(job.texts)
        return batch, None

    def _process(self, batch: list[Job]) -> None:
        wanted = [job for job in batch if job.begin()]
        if wanted:
            self._answer(wanted)
        self._waiting.leave(sum(len(job.texts) for job in batch))

    def _answer(self, jobs: list[Job]) -> None:
        texts = [text for job in jobs for text in job.texts]
        start = time.monotonic()
        try:
            results = self._run(texts)
        except Exception as error:  # noqa: BLE001 - whatever it is, the next batch is another one
            if len(jobs) == 1:
                jobs[0].results.set_exception(error)
                return
            # One request must not spoil the others.
            for job in jobs:
                self._answer([job])
            return
        self._observe(len(texts), time.monotonic() - start)
        place = 0
        for job in jobs:
            job.results.set_result(results[place : place + len(job.texts)])
            place += len(job.texts)


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
        self._waiting = WaitingTexts(max_queue)
        self._threads = concurrent.futures.ThreadPoolExecutor(max_requests, "quintain-requests")

    @property
    def num_waiting(self) -> int:
        """Texts that wait or are being worked on."""
        return self._waiting.count

    def submit(self, texts: Sequence[Any], timeout_secs: float = float("inf")) -> Results:
        """Adds the texts of a request; see `Batcher.submit`.

        Raises:
            QueueFullError: If too many texts are waiting, or the joiner is closed.
        """
        job = Job.build(texts, timeout_secs)
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

    def _answer(self, job: Job) -> None:
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
