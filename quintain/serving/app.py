"""A model over HTTP: JSON in, JSON out."""

import asyncio
import contextlib
import dataclasses
import logging
from collections.abc import AsyncIterator, Callable, Collection, Sequence
from typing import Any, Final

import fastapi
import prometheus_client
from fastapi import responses
from starlette import exceptions as starlette_exceptions
from starlette import types

import quintain
from quintain import errors
from quintain.serving import batching, chat_routes, request_bodies, served_model
from quintain.web import request_checks, request_life

_CLIENT_LEFT: Final = 499
"""Status, in the metrics only, of a request whose client did not wait for the answer."""

MAX_BODY_BYTES: Final = 8 * 2**20
"""Largest request."""

_MAX_HELD_BYTES: Final = 64 * 2**20
"""Most bytes of all requests that are read or answered at a time."""

_BATCH_SIZES: Final = (1, 2, 4, 8, 16, 32, 64, 128, 256)

_logger = logging.getLogger(__name__)


def build_app(
    model: served_model.ServedModel,
    *,
    max_batch_size: int = 64,
    max_delay_secs: float = 0.005,
    max_queue: int = 1024,
    timeout_secs: float = 60.0,
    hosts: Collection[str] = (),
) -> fastapi.FastAPI:
    """Returns an app that answers texts, or whatever else the model takes.

    `POST /translate` (or `/predict`) takes `{"texts": [...]}`, of other models `/predict` takes
    `{"instances": [...]}`; `POST /v1/models/default:predict` takes `{"instances": [...]}` or
    `{"inputs": ...}`, as TensorFlow Serving does; of a model that answers conversations
    `POST /v1/chat/completions` takes `{"messages": [...]}`, as OpenAI does. `GET /health`,
    `GET /metrics` (Prometheus), `GET /` (what is served, and the schema of an instance) and
    `GET /docs`.

    Args:
        model: The model.
        max_batch_size: Most texts that the model is given at a time.
        max_delay_secs: How long a text waits for others to share a batch with. Native searches
            wait for none: texts join them while they run.
        max_queue: Most texts that wait; beyond, requests are refused with status 503.
        timeout_secs: How long a request may wait; beyond, it is answered with status 504.
        hosts: Names of the server besides those of this machine; see `request_checks.parse_host`.
    """
    metrics = Metrics()
    batcher: batching.Batcher | batching.Joiner
    if model.join is not None:
        batcher = batching.Joiner(
            model.join,
            max_requests=max_batch_size,
            max_queue=max_queue,
            observe=metrics.observe_batch,
        )
    else:
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
    # The last one added is the first one asked.
    app.add_middleware(
        request_checks.BodyCheck,
        refuse=_refuse,
        find_max_bytes=lambda _: MAX_BODY_BYTES,
        max_held_bytes=_MAX_HELD_BYTES,
        types=(request_checks.JSON, request_checks.FORM, request_checks.UNNAMED),
        room=request_checks.ParsingRoom(MAX_BODY_BYTES, patience_secs=timeout_secs),
    )
    app.add_middleware(request_checks.HostCheck, refuse=_refuse, hosts=hosts)
    app.add_middleware(request_life.RequestLife, refuse=_refuse, observe=metrics.observe_request)
    app.add_exception_handler(Exception, _explain_fault)
    app.add_exception_handler(errors.DataError, _explain_bad_instance)
    app.add_exception_handler(starlette_exceptions.HTTPException, _explain_bad_address)
    answers = _Answers(model, batcher, max_queue, timeout_secs)

    if model.field == "texts":
        hint = request_bodies.show_example("texts", model.example)

        @app.post(model.path, openapi_extra=_describe_body(model, "texts"))
        async def run(request: fastapi.Request) -> dict[str, Any]:
            """Answers texts, in their order."""
            texts = await answers.check(
                request, lambda body: request_bodies.read_list(body, "texts", hint)
            )
            return {model.result: await answers.answer(texts, request)}

    rows_hint = request_bodies.show_example("instances", model.example)
    columns = _describe_body(model, "instances", inputs={}, signature_name={})

    @app.post("/v1/models/default:predict", openapi_extra=columns)
    async def predict(request: fastapi.Request) -> dict[str, Any]:
        """Answers instances in the words of TensorFlow Serving."""
        is_in_columns = False

        def read(body: Any) -> list[Any]:
            nonlocal is_in_columns
            rows, is_in_columns = request_bodies.read_instances(body, rows_hint)
            return rows

        found = await answers.answer(await answers.check(request, read), request)
        if is_in_columns:
            return {"outputs": request_bodies.to_columns(found)}
        return {"predictions": found}

    if model.chat is not None:
        chat_routes.add_routes(
            app,
            model.chat,
            name=str(model.details.get("model", "default")),
            max_requests=max_batch_size,
            timeout_secs=timeout_secs,
            observe=metrics.observe_batch,
        )

    if model.field != "texts":
        app.post(model.path, openapi_extra=columns)(predict)

    @app.get("/")
    async def describe() -> dict[str, Any]:
        """Says what is served."""
        return {
            "kind": model.kind,
            "path": model.path,
            "version": quintain.__version__,
            **model.details,
            "schema": model.schema,
            "example": {model.field: [model.example]},
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
            metrics.format(), media_type=prometheus_client.CONTENT_TYPE_LATEST
        )

    return app


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

    def observe_request(self, scope: types.Scope, status: int, secs: float) -> None:
        """Counts a request that has a body."""
        if scope["method"] == "POST":
            self.requests.labels(str(status)).inc()
            self.latency.observe(secs)

    def format(self) -> bytes:
        """Returns all counters as text."""
        return prometheus_client.generate_latest(self.registry)


@dataclasses.dataclass(frozen=True)
class _Answers:
    """Answers the instances of requests, through the batches that they share."""

    model: served_model.ServedModel
    batcher: batching.Batcher | batching.Joiner
    max_queue: int
    timeout_secs: float

    async def check(
        self, request: fastapi.Request, read: Callable[[Any], list[Any]]
    ) -> Sequence[Any]:
        """Returns the instances of a request as the model takes them, which is all that stays."""
        given = read(request_checks.take_json(request.scope))
        if len(given) > self.max_queue:
            raise fastapi.HTTPException(
                413,
                f"got {len(given):,} {self.model.field}, expected at most {self.max_queue:,} in a "
                "request.",
            )
        checked = await asyncio.to_thread(self.model.check, given)
        request_checks.leave_room(request.scope)
        return checked

    async def answer(self, checked: Sequence[Any], request: fastapi.Request) -> list[Any]:
        """Returns the result of each instance."""
        try:
            results = self.batcher.submit(checked, self.timeout_secs)
        except batching.QueueFullError as error:
            raise fastapi.HTTPException(503, str(error), {"Retry-After": "1"}) from error
        return await _wait(results, request, self.timeout_secs)


async def _wait(
    results: batching.Results, request: fastapi.Request, timeout_secs: float
) -> list[Any]:
    """Returns the results, unless they take too long or the client leaves."""
    result: asyncio.Future[Any] = asyncio.wrap_future(results)
    leaving: asyncio.Future[Any] = asyncio.ensure_future(_wait_until_client_leaves(request))
    try:
        done, _ = await asyncio.wait(
            {result, leaving}, timeout=timeout_secs, return_when=asyncio.FIRST_COMPLETED
        )
    finally:
        leaving.cancel()
        results.cancel()  # At once, as `result.cancel` would not: nobody wants what is not done.
        result.cancel()
    if result in done and not result.cancelled():
        error = result.exception()
        if error is None:
            return result.result()
        _logger.error("A batch failed.", exc_info=error)
        message = f"the model failed ({type(error).__name__}); the server's log says more."
        raise fastapi.HTTPException(500, message) from error
    if leaving in done and result not in done:
        raise fastapi.HTTPException(_CLIENT_LEFT, "the client left.")
    raise fastapi.HTTPException(504, f"no answer within {timeout_secs:g} s; too much is waiting.")


async def _wait_until_client_leaves(request: fastapi.Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass


async def _explain_bad_instance(_: fastapi.Request, error: Any) -> responses.Response:
    return responses.JSONResponse({"detail": str(error)}, 422)


async def _explain_fault(_: fastapi.Request, error: Any) -> responses.Response:
    """Answers a request that met a fault of the server, which is logged as well."""
    message = f"the server failed ({type(error).__name__}); its log says more."
    return responses.JSONResponse({"detail": message}, 500)


async def _explain_bad_address(request: fastapi.Request, error: Any) -> responses.Response:
    """Suggests addresses or methods in place of an unknown one."""
    known = {route.path: route.methods for route in request.app.routes}
    path, message = request.url.path, error.detail
    if error.status_code == 404:
        message = f"{errors.cut(path)}: there is no such address.{errors.suggest(path, known)} "
        message += "GET / says what is served."
    elif error.status_code == 405:
        allowed = ", ".join(sorted(known.get(path, {"another method"})))
        message = f"{path}: got {request.method[:20]}, expected {allowed}."
    return responses.JSONResponse({"detail": message}, error.status_code, error.headers)


def _refuse(status_code: int, message: str) -> responses.Response:
    """Answers a request that was turned away before anything looked at it."""
    headers = {"Retry-After": "1"} if status_code == 503 else None
    # What can't be read has this status here, whatever is wrong with it.
    status_code = 422 if status_code == 400 else status_code
    return responses.JSONResponse({"detail": message}, status_code, headers)


def _describe_body(model: served_model.ServedModel, field: str, **others: Any) -> dict[str, Any]:
    """Returns what the page of the documentation says of the body of a request."""
    rows = {"type": "array", "items": dict(model.schema), "minItems": 1}
    properties = {field: rows, **others}
    schema = {"type": "object", "properties": properties, "additionalProperties": False}
    content = {request_checks.JSON: {"schema": schema, "example": {field: [model.example]}}}
    return {"requestBody": {"required": True, "content": content}}
