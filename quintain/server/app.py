"""The HTTP interface of a master: REST below `/api/v1`, for users and for the processes of trials.

Requests carry the master's token as `Authorization: Bearer TOKEN`. Answers are records as JSON;
what went wrong comes as `{"error": {"kind": ..., "message": ...}}`.
"""

import secrets
from collections.abc import Callable
from typing import Final

import fastapi
from fastapi import exceptions
from starlette import exceptions as starlette_exceptions
from starlette import types

from quintain import errors
from quintain.records import master_status
from quintain.scheduler import master as master_lib
from quintain.server import direct_calls, responses
from quintain.server.routes import checkpoints, experiments, trials, workers
from quintain.server.routes import master as master_routes

PREFIX: Final = "/api/v1"


def build_app(
    calls: direct_calls.DirectCalls,
    master: master_lib.Master,
    info: master_status.MasterInfo,
    *,
    token: str,
    stop: Callable[[bool], None],
    is_stopping: Callable[[], bool] = lambda: False,
) -> fastapi.FastAPI:
    """Builds the interface of a master.

    Args:
        calls: What answers users.
        master: What answers workers.
        info: Which master this is.
        token: What requests have to carry.
        stop: Asks the process to stop and returns at once; the argument says whether trials save
            themselves first.
        is_stopping: Whether the process is about to stop.
    """
    app = fastapi.FastAPI(title="Quintain", version=info.version, docs_url=None, redoc_url=None)
    app.add_exception_handler(errors.QuintainError, responses.handle_error)
    app.add_exception_handler(exceptions.RequestValidationError, responses.handle_bad_request)
    app.add_exception_handler(starlette_exceptions.HTTPException, responses.handle_http_error)

    app.add_middleware(_TokenCheck, token=token)
    for router in (
        # Workers' addresses are longer than users' and do not hide them.
        workers.build_router(master, is_stopping),
        master_routes.build_router(calls, info, stop),
        experiments.build_router(calls),
        trials.build_router(calls),
        checkpoints.build_router(calls),
    ):
        app.include_router(router, prefix=PREFIX)
    return app


class _TokenCheck:
    """Turns away requests that do not carry the token."""

    def __init__(self, app: types.ASGIApp, *, token: str) -> None:
        self._app = app
        self._expected = f"Bearer {token}".encode()

    async def __call__(self, scope: types.Scope, receive: types.Receive, send: types.Send) -> None:
        if scope["type"] == "http":
            given = dict(scope["headers"]).get(b"authorization", b"")
            if not secrets.compare_digest(given, self._expected):
                answer = responses.to_error(
                    "UnauthorizedError",
                    "The request carries no token, or not that of this master; master.json in the "
                    "home directory has it.",
                    responses.UNAUTHORIZED,
                    {"WWW-Authenticate": "Bearer"},
                )
                await answer(scope, receive, send)
                return
        await self._app(scope, receive, send)
