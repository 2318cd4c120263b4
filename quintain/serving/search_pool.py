"""Native beam searches that run in threads while there is something to translate.

Sentences of all callers share the searches: they join between steps where there is room, each
caller's in turn, and leave when they are done.
"""

import collections
import concurrent.futures
import os
import threading
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from quintain.kernels import translation
from quintain.nlp.modeling.ops import decoding, native_search
from quintain.serving import source_batches


class _Request:
    """The sentences of a caller."""

    def __init__(
        self,
        sources: Sequence[np.ndarray],
        prefixes: Sequence[np.ndarray | None],
        is_wanted: Callable[[], bool],
    ) -> None:
        self.sources, self.prefixes, self.is_wanted = sources, prefixes, is_wanted
        order = sorted(range(len(sources)), key=lambda place: -len(sources[place]))
        self.waiting = collections.deque(order)
        self.found: list[Any] = [None] * len(sources)
        self.num_left = len(sources)
        self.error: BaseException | None = None
        self.is_done = threading.Event()

    def put(self, place: int, found: translation.Found) -> None:
        self.found[place] = found
        self.num_left -= 1
        if not self.num_left:
            self.is_done.set()

    def fail(self, error: BaseException) -> None:
        self.error = error
        self.is_done.set()


class SearchPool:
    """Searches of one model with one set of options."""

    def __init__(self, model: Any, options: decoding.DecodingOptions) -> None:
        """Packs the model's weights as they are now."""
        self._model, self._options = model, options
        self._native = native_search.read(model, options)
        self._lock = threading.Lock()
        self._requests: collections.deque[_Request] = collections.deque()
        self._num_workers = self._num_left = 0

    def run(
        self,
        sources: Sequence[np.ndarray],
        prefixes: Sequence[np.ndarray | None],
        batch_size: int,
        is_wanted: Callable[[], bool] = lambda: True,
    ) -> list[translation.Found]:
        """Translates sentences; several threads may do so at the same time.

        Args:
            sources: Ids of each, its end included; at least one sentence.
            prefixes: Ids that the outputs of each start with, or None.
            batch_size: Most sentences in the searches at the same time; those of the call that
                starts them count. They are spread over as many threads as TensorFlow may use for an
                operation.
            is_wanted: Whether somebody waits for the translations. Where nobody does any more,
                sentences that have not joined a search never do.

        Raises:
            CancelledError: If nobody waits any more.
        """
        request = _Request(sources, prefixes, is_wanted)
        num_threads = min(_count_threads(), batch_size)
        room = batch_size // num_threads, source_batches.MAX_TOKENS // num_threads
        with self._lock:
            self._requests.append(request)
            self._num_left += len(sources)
            num_new = max(min(num_threads, self._num_left) - self._num_workers, 0)
            self._num_workers += num_new
        for _ in range(num_new):
            thread = threading.Thread(
                target=self._work, args=room, name="quintain-search", daemon=True
            )
            try:
                thread.start()
            except RuntimeError as error:  # The system has none; those that run do the work.
                self._fail({}, error)
        request.is_done.wait()
        if request.error is not None:
            raise request.error
        return request.found

    def _work(self, max_sentences: int, max_tokens: int) -> None:
        """Runs a search until nothing is left to do."""
        live: dict[int, tuple[_Request, int]] = {}
        try:
            search = native_search.build_search(self._native, self._model, self._options)
            number = num_tokens = 0
            while self._goes_on(live):
                while num_tokens < max_tokens and (taken := self._take(len(live), max_sentences)):
                    request, place = live[number] = taken
                    source, prefix = request.sources[place], request.prefixes[place]
                    limit = native_search.limit_length(self._model, source, prefix)
                    search.add(number, source, max_length=limit, prefix=prefix)
                    num_tokens += len(source)
                    number += 1
                for found in search.run(1):
                    request, place = live.pop(found.key)
                    num_tokens -= len(request.sources[place])
                    with self._lock:
                        self._num_left -= 1
                        request.put(place, found)
        except BaseException as error:  # noqa: BLE001 - whoever waits has to know
            self._fail(live, error)

    def _goes_on(self, live: dict[int, Any]) -> bool:
        """Returns whether there is something to do; else the thread has to end."""
        with self._lock:
            if live or self._requests:
                return True
            self._num_workers -= 1
            return False

    def _take(self, num_live: int, max_sentences: int) -> tuple[_Request, int] | None:
        """Returns the next sentence, one of each request in turn, for a thread that has room."""
        with self._lock:
            while self._requests and not self._requests[0].is_wanted():
                self._drop(self._requests.popleft(), concurrent.futures.CancelledError())
            share = -(-self._num_left // self._num_workers)
            if not self._requests or num_live >= min(share, max_sentences):
                return None
            request = self._requests.popleft()
            place = request.waiting.popleft()
            if request.waiting:
                self._requests.append(request)
            return request, place

    def _drop(self, request: _Request, error: BaseException) -> None:
        """Leaves out what waits of a request, whose caller gets the error."""
        self._num_left -= len(request.waiting)
        request.waiting.clear()
        request.fail(error)

    def _fail(self, live: dict[int, tuple[_Request, int]], error: BaseException) -> None:
        with self._lock:
            self._num_workers -= 1
            failed = {request for request, _ in live.values()}
            if not self._num_workers:  # Nobody else is there to do what waits.
                failed.update(self._requests)
            self._num_left -= len(live)
            for request in failed:
                self._drop(request, error)
            self._requests = collections.deque(
                request for request in self._requests if request not in failed
            )


def _count_threads() -> int:
    given = tf.config.threading.get_intra_op_parallelism_threads()
    given = given or int(os.environ.get("TF_NUM_INTRAOP_THREADS") or 0)
    return given or len(os.sched_getaffinity(0))
