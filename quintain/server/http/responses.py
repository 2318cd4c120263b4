"""Records as HTTP answers, and errors as answers that the client turns into errors again."""

import errno
import json
from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import Annotated, Any, Final

import fastapi
import pydantic
from fastapi import exceptions, routing
from starlette import datastructures, types
from typing_extensions import override

from quintain import errors
from quintain.records.rows import codec
from quintain.server.http import answers
from quintain.store import database_errors
from quintain.web import request_checks

PREFIX: Final = "/api/v1"
"""Start of the addresses of the interface."""

_STATUS_CODES: Final[tuple[tuple[type[Exception], int], ...]] = (
    (errors.UnauthorizedError, 403),
    (errors.NotFoundError, 404),
    (errors.GoneError, 410),
    (errors.StateError, 409),
    (errors.ConfigError, 400),
    (errors.DataError, 400),
    (errors.RegistryError, 400),
    (errors.CheckpointError, 409),
    (errors.StoreFullError, 507),
    (errors.StoreError, 503),
)
"""The first class that an error belongs to decides."""

HEADERS: Final = {
    "Content-Security-Policy": (
        "default-src 'self'; frame-ancestors 'none'; base-uri 'none'; form-action 'self'"
    ),
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}
"""What all answers of a master carry, unless they say otherwise themselves."""

STRICT_FIELDS: Final = pydantic.ConfigDict(extra="forbid")
"""Refuses bodies with fields that there are not."""

Texts = Annotated[list[str], pydantic.FailFast()]
"""A list of texts in a body. Of millions that are none, the first one is told, not all."""

ROUTE: Final = "route"
"""Name in the state of a request: method and address of the route that answers it."""

UNAUTHORIZED: Final = 401
FORBIDDEN: Final = 403

_BAD_NAMES: Final = frozenset({errno.ELOOP, errno.ENAMETOOLONG})
"""Faults of the file system that only follow from what was asked for."""

_MOST_SHOWN: Final = 200
"""Characters of a value that a message repeats."""

_MOST_PROBLEMS: Final = 20
"""Problems of a request that are listed."""


def build_router(prefix: str = "", *, tags: Sequence[str] = ()) -> fastapi.APIRouter:
    """Returns a router for addresses below `PREFIX`, whose errors are declared."""
    return fastapi.APIRouter(
        prefix=PREFIX + prefix,
        tags=list(tags),
        route_class=CheckedRoute,
        responses={"default": {"model": answers.Error}},
    )


class CheckedRoute(routing.APIRoute):
    """Route that notes its name, and takes the body as `request_checks.BodyCheck` has parsed it."""

    @override
    def get_route_handler(
        self,
    ) -> Callable[[fastapi.Request], Coroutine[Any, Any, fastapi.Response]]:
        handle = super().get_route_handler()

        async def handle_checked(request: fastapi.Request) -> fastapi.Response:
            setattr(request.state, ROUTE, (request.method, self.path_format))
            return await handle(_CheckedRequest(request.scope, request.receive))

        return handle_checked


class _CheckedRequest(fastapi.Request):
    @override
    async def json(self) -> Any:
        return request_checks.take_json(self.scope)


class AnswerHeaders:
    """Stands before an app: adds `HEADERS` to its answers where it has not set them itself."""

    def __init__(self, app: types.ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: types.Scope, receive: types.Receive, send: types.Send) -> None:
        """Handles a request as ASGI has it."""

        async def send_with_headers(message: types.Message) -> None:
            if message["type"] == "http.response.start":
                headers = datastructures.MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    headers.setdefault(name, value)
            await send(message)

        await self._app(scope, receive, send_with_headers)


def to_response(value: object, status_code: int = 200) -> fastapi.Response:
    """Returns records, or any nest of them, as JSON."""
    text = json.dumps(codec.to_plain(value), allow_nan=False, separators=(",", ":"))
    return fastapi.Response(text, status_code=status_code, media_type="application/json")


def to_error(
    kind: str, message: str, status_code: int, headers: Mapping[str, str] | None = None
) -> fastapi.Response:
    """Returns an error as JSON.

    Args:
        kind: Name of the class of the error.
        message: What went wrong.
        status_code: The HTTP status.
        headers: Further headers.
    """
    answer = to_response({"error": {"kind": kind, "message": message}}, status_code)
    answer.headers.update(headers or {})
    return answer


def find_status(error: errors.QuintainError) -> int:
    """Returns the HTTP status of an error; 500 for those that no caller caused."""
    return next((code for kind, code in _STATUS_CODES if isinstance(error, kind)), 500)


def handle_error(_: fastapi.Request, error: Exception) -> fastapi.Response:
    """Answers a request that raised an error of this package."""
    assert isinstance(error, errors.QuintainError)
    return to_error(type(error).__name__, str(error), find_status(error))


def handle_bad_request(_: fastapi.Request, error: Exception) -> fastapi.Response:
    """Answers a request whose arguments have the wrong types."""
    assert isinstance(error, exceptions.RequestValidationError)
    problems = [
        f"{'.'.join(str(part) for part in problem['loc'][1:])}: got "
        f"{repr(problem.get('input'))[:_MOST_SHOWN]}, {problem['msg']}"
        for problem in error.errors()[:_MOST_PROBLEMS]
    ]
    return to_error("ConfigError", "\n".join(problems), 400)


class OsErrorHandler:
    """Answers requests that the system refuses: by a disk that is lost or full, or for a bad name.

    A file that is gone, or that the master may not read, is a fault: a request that names files has
    what it names looked at where that is done.
    """

    def __init__(self, home: str) -> None:
        self._home = home

    def __call__(self, request: fastapi.Request, error: Exception) -> fastapi.Response:
        """Returns the answer.

        Raises:
            OSError: If neither the disk nor the request is to blame.
        """
        assert isinstance(error, OSError)
        lost = database_errors.explain_disk(error, self._home)
        if lost is not None:
            return handle_error(request, lost)
        if error.errno not in _BAD_NAMES:
            raise error
        shown = str(error.filename)[:_MOST_SHOWN]
        return to_error("ConfigError", f"{error.strerror}: {shown}", 400)


def handle_fault(_: fastapi.Request, error: Exception) -> fastapi.Response:
    """Answers a request that met a fault of the master, which is logged as well."""
    return to_error(
        "QuintainError",
        f"The master failed ({type(error).__name__}); its log says where.",
        500,
        HEADERS,
    )


def refuse(status_code: int, message: str) -> fastapi.Response:
    """Answers a request that was turned away before anything looked at it."""
    kinds = {
        400: "ConfigError",
        FORBIDDEN: "UnauthorizedError",
        request_checks.MISDIRECTED: "ConfigError",
    }
    return to_error(kinds.get(status_code, "DataError"), message, status_code)


def handle_http_error(_: fastapi.Request, error: Exception) -> fastapi.Response:
    """Answers a request to an address or with a method that there is not."""
    assert isinstance(error, exceptions.HTTPException) or hasattr(error, "status_code")
    status_code = int(getattr(error, "status_code", 500))
    kind = "NotFoundError" if status_code == 404 else "QuintainError"
    return to_error(kind, str(getattr(error, "detail", error)), status_code)
