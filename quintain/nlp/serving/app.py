"""A model over HTTP: JSON in, JSON out."""

import asyncio
import contextlib
import json
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Annotated, Any, Final

import fastapi
import prometheus_client
import pydantic
from fastapi import responses

import quintain
from quintain import errors
from quintain.nlp.serving import batching, served_model

MAX_BODY_BYTES: Final = 8 * 2**20
"""Largest request."""

_NAMES: Final = {
    "translation": ("/translate", "translations"),
    "sentence_prediction": ("/predict", "predictions"),
}
_BATCH_SIZES: Final = (1, 2, 4, 8, 16, 32, 64, 128, 256)

Text = str | list[str]


class Request(pydantic.BaseModel):
    """Texts to answer."""

    model_config = pydantic.ConfigDict(extra="forbid")

    texts: Annotated[list[Text], pydantic.Field(min_length=1)]
    """Strings; of a model of several text fields, a list of them for each example."""


class Instances(pydantic.BaseModel):
    """The same in the words of TensorFlow Serving."""

    instances: Annotated[list[Text], pydantic.Field(min_length=1)]
    """Strings, or lists of strings."""


class _Metrics:
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


def build_app(
    model: served_model.ServedModel,
    *,
    max_batch_size: int = 64,
    max_delay_secs: float = 0.005,
    max_queue: int = 1024,
    timeout_secs: float = 60.0,
) -> fastapi.FastAPI:
    """Returns an app that answers texts.

    `POST /translate` (or `/predict`) takes `{"texts": [...]}`; `POST /v1/models/default:predict`
    takes `{"instances": [...]}`, as TensorFlow Serving does. `GET /health`, `GET /metrics`
    (Prometheus), `GET /` (what is served) and `GET /docs`.

    Args:
        model: The model.
        max_batch_size: Most texts that the model is given at a time.
        max_delay_secs: How long a text waits for others to share a batch with.
        max_queue: Most texts that wait; beyond, requests are refused with status 503.
        timeout_secs: How long a request may wait; beyond, it is answered with status 504.
    """
    metrics = _Metrics()
    batcher = batching.Batcher(
        model.run,
        max_batch_size=max_batch_size,
        max_delay_secs=max_delay_secs,
        max_queue=max_queue,
        observe=metrics.observe_batch,
    )

    @contextlib.asynccontextmanager
    async def lifespan(_: fastapi.FastAPI) -> AsyncIterator[None]:
        yield
        await asyncio.to_thread(batcher.close)

    app = fastapi.FastAPI(title="Quintain", version=quintain.__version__, lifespan=lifespan)
    path, key = _NAMES[model.kind]

    async def answer(texts: list[Text]) -> list[dict[str, Any]]:
        _check_fields(texts, model.num_fields)
        try:
            await asyncio.to_thread(model.check, texts)
            future = batcher.submit(texts, timeout_secs)
        except errors.DataError as error:
            raise fastapi.HTTPException(422, str(error)) from error
        except batching.QueueFullError as error:
            raise fastapi.HTTPException(503, str(error), {"Retry-After": "1"}) from error
        try:
            return await asyncio.wait_for(asyncio.wrap_future(future), timeout_secs)
        except (TimeoutError, asyncio.CancelledError) as error:
            message = f"no answer within {timeout_secs:g} s; too much is waiting."
            raise fastapi.HTTPException(504, message) from error

    @app.post(path)
    async def run(request: Request) -> dict[str, Any]:
        """Answers texts, in their order."""
        return {key: await answer(request.texts)}

    @app.post("/v1/models/default:predict")
    async def predict(request: Instances) -> dict[str, Any]:
        """Answers texts in the words of TensorFlow Serving."""
        return {"predictions": await answer(request.instances)}

    @app.get("/")
    async def describe() -> dict[str, Any]:
        """Says what is served."""
        return {
            "kind": model.kind,
            "path": path,
            "version": quintain.__version__,
            "num_fields": model.num_fields,
            "max_batch_size": max_batch_size,
            "max_queue": max_queue,
        }

    @app.get("/health")
    async def check_health() -> dict[str, Any]:
        """Says that the server lives, and how many texts wait."""
        return {"status": "ok", "waiting": batcher.num_waiting}

    @app.get("/metrics")
    async def read_metrics() -> responses.Response:
        """Returns the counters in Prometheus' format."""
        metrics.waiting.set(batcher.num_waiting)
        return responses.Response(
            prometheus_client.generate_latest(metrics.registry),
            media_type=prometheus_client.CONTENT_TYPE_LATEST,
        )

    @app.middleware("http")
    async def count(
        request: fastapi.Request,
        call_next: Callable[[fastapi.Request], Awaitable[responses.Response]],
    ) -> responses.Response:
        if request.method != "POST":
            return await call_next(request)
        start = time.monotonic()
        if int(request.headers.get("content-length") or 0) > MAX_BODY_BYTES:
            response: responses.Response = responses.JSONResponse(
                {"detail": f"the request is larger than {MAX_BODY_BYTES:,} bytes."}, 413
            )
        else:
            response = await call_next(request)
        metrics.requests.labels(str(response.status_code)).inc()
        metrics.latency.observe(time.monotonic() - start)
        return response

    return app


def _check_fields(texts: list[Text], num_fields: int) -> None:
    for number, text in enumerate(texts, start=1):
        found = 1 if isinstance(text, str) else len(text)
        if found != num_fields or (num_fields == 1 and not isinstance(text, str)):
            expected = "a string" if num_fields == 1 else f"a list of {num_fields} strings"
            shown = json.dumps(text, ensure_ascii=False)[:80]
            raise fastapi.HTTPException(422, f"text {number}: got {shown}, expected {expected}.")
