"""Counts the requests of a server, and refuses those that are too large."""

import time
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any, Final

import fastapi
import prometheus_client
from fastapi import responses

MAX_BODY_BYTES: Final = 8 * 2**20
"""Largest request."""

CONTENT_TYPE: Final = prometheus_client.CONTENT_TYPE_LATEST
"""Type of the text of the counters."""

_BATCH_SIZES: Final = (1, 2, 4, 8, 16, 32, 64, 128, 256)

_Message = MutableMapping[str, Any]
_Receive = Callable[[], Awaitable[_Message]]
_Send = Callable[[_Message], Awaitable[None]]


class Metrics:
    """Counters, in Prometheus' format."""

    def __init__(self) -> None:
        """Starts at 0."""
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
    """Stands before an app: counts requests with a body, limits it, and takes it for JSON."""

    def __init__(self, app: Any, *, metrics: Metrics) -> None:
        """Stores the app behind it, and the counters."""
        self._app = app
        self._metrics = metrics

    async def __call__(
        self, scope: MutableMapping[str, Any], receive: _Receive, send: _Send
    ) -> None:
        """Handles a request as ASGI has it."""
        if scope["type"] != "http" or scope["method"] != "POST":
            await self._app(scope, receive, send)
            return
        start, status, num_bytes = time.monotonic(), 500, 0

        async def receive_limited() -> _Message:
            nonlocal num_bytes
            message = await receive()
            num_bytes += len(message.get("body", b""))
            if num_bytes > MAX_BODY_BYTES:
                raise fastapi.HTTPException(413, _say_too_large())
            return message

        async def send_seen(message: _Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        try:
            if _read_length(scope) > MAX_BODY_BYTES:
                refusal = responses.JSONResponse({"detail": _say_too_large()}, 413)
                await refusal(scope, receive, send_seen)
            else:
                await self._app(_say_json(scope), receive_limited, send_seen)
        finally:
            self._metrics.requests.labels(str(status)).inc()
            self._metrics.latency.observe(time.monotonic() - start)


def _read_length(scope: MutableMapping[str, Any]) -> int:
    """Returns the length that a request claims; 0 where it has none, as when it comes in pieces."""
    text = dict(scope["headers"]).get(b"content-length", b"")
    return int(text) if text.isdigit() else 0


def _say_json(scope: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    """Returns a request whose body is JSON whatever it is called: `curl -d` calls it a form."""
    headers = [pair for pair in scope["headers"] if pair[0] != b"content-type"]
    return {**scope, "headers": [*headers, (b"content-type", b"application/json")]}


def _say_too_large() -> str:
    return f"the request is larger than {MAX_BODY_BYTES:,} bytes."
