"""Counts the requests of a server."""

import time
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any, Final

import prometheus_client

CONTENT_TYPE: Final = prometheus_client.CONTENT_TYPE_LATEST
"""Type of the text of the counters."""

_BATCH_SIZES: Final = (1, 2, 4, 8, 16, 32, 64, 128, 256)

_Message = MutableMapping[str, Any]
_Receive = Callable[[], Awaitable[_Message]]
_Send = Callable[[_Message], Awaitable[None]]


class Metrics:
    """Counters, in Prometheus' format."""

    def __init__(self) -> None:
        self.registry = prometheus_client.CollectorRegistry()
        common: dict[str, Any] = {"registry": self.registry}
        self.requests = prometheus_client.Counter(
            "quintain_requests", "Requests by their status.", ["status"], **common
        )
        self.texts = prometheus_client.Counter("quintain_texts", "Texts answered.", **common)
        self.waiting = prometheus_client.Gauge("quintain_texts_waiting", "Texts waiting.", **common)
        self.latency = prometheus_client.Histogram(
            "quintain_request_seconds", "Seconds from a request to its answer.", **common
        )
        self.batch_sizes = prometheus_client.Histogram(
            "quintain_batch_size", "Texts of a batch.", buckets=_BATCH_SIZES, **common
        )
        self.batch_secs = prometheus_client.Histogram(
            "quintain_batch_seconds", "Seconds that the model took for a batch.", **common
        )

    def observe_batch(self, size: int, secs: float) -> None:
        """Takes the size and the time of a batch."""
        self.texts.inc(size)
        self.batch_sizes.observe(size)
        self.batch_secs.observe(secs)

    def format(self) -> bytes:
        """Returns all counters as text."""
        return prometheus_client.generate_latest(self.registry)


class Meter:
    """Stands before an app: counts requests with a body, and how long they take."""

    def __init__(self, app: Any, *, metrics: Metrics) -> None:
        self._app = app
        self._metrics = metrics

    async def __call__(
        self, scope: MutableMapping[str, Any], receive: _Receive, send: _Send
    ) -> None:
        """Handles a request as ASGI has it."""
        if scope["type"] != "http" or scope["method"] != "POST":
            await self._app(scope, receive, send)
            return
        start, status = time.monotonic(), 500

        async def send_seen(message: _Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        try:
            await self._app(scope, receive, send_seen)
        finally:
            self._metrics.requests.labels(str(status)).inc()
            self._metrics.latency.observe(time.monotonic() - start)
