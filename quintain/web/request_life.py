"""The life of a request: told to its connection, and cut off by the end of the server.

A server that ends gives requests some time, and then cancels what works on them. Left alone,
uvicorn would write a stack trace for each of them, and answer their clients with status 500. Here
they get 503, as if they had come a moment later.
"""

import asyncio
import contextlib
import time
from collections.abc import Callable
from typing import Final

from starlette import types

from quintain.web import connections, request_checks

_FAREWELL_SECS: Final = 1.0
"""Seconds that the last answer may take, whose client might not read it."""

Observe = Callable[[types.Scope, int, float], None]
"""Takes a request, the status of its answer, and the seconds until the answer began."""


class RequestLife:
    """Stands before an app: tells connections and metrics when requests begin and end.

    Args:
        app: What answers.
        refuse: Builds the answer to who is cut off.
        observe: Is told of each request once, when its answer begins; one that ends without an
            answer has status 500.
    """

    def __init__(
        self,
        app: types.ASGIApp,
        *,
        refuse: request_checks.Refuse,
        observe: Observe = lambda *_: None,
    ) -> None:
        self._app = app
        self._refuse = refuse
        self._observe = observe

    async def __call__(self, scope: types.Scope, receive: types.Receive, send: types.Send) -> None:
        """Handles a request as ASGI has it."""
        state = scope.setdefault("state", {})
        connection: connections.Connection | None = state.get(connections.CONNECTION)
        if scope["type"] != "http" or connection is None:
            await self._answer(scope, receive, send)
            return

        async def receive_noted() -> types.Message:
            message = await receive()
            if not message.get("more_body"):
                connection.end_body()
            return message

        async def send_open(message: types.Message) -> None:
            # uvicorn ends it after bad bytes of a body, and takes no answer any more.
            if not connection.is_closing:
                await send(message)

        connection.begin_request(has_body=request_checks.has_body(scope))
        try:
            await self._answer(scope, receive_noted, send_open)
        finally:
            connection.end_request(is_known=state.get(connections.KNOWN, False))

    async def _answer(self, scope: types.Scope, receive: types.Receive, send: types.Send) -> None:
        begin, has_begun = time.monotonic(), False

        async def send_seen(message: types.Message) -> None:
            nonlocal has_begun
            # Starlette sends the stack trace of a start or end that was cut off, too.
            if not (message["type"].endswith(".failed") and _is_cut_off()):
                has_begun = True
                if message["type"] == "http.response.start":
                    self._observe(scope, message["status"], time.monotonic() - begin)
                await send(message)

        try:
            await self._app(scope, receive, send_seen)
        except asyncio.CancelledError:
            if not _is_cut_off():
                raise
            if scope["type"] == "http" and not has_begun:
                refused = self._refuse(503, "The server is shutting down.")
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(_FAREWELL_SECS):
                        await refused(scope, receive, send_seen)
        finally:
            if scope["type"] == "http" and not has_begun:
                self._observe(scope, 500, time.monotonic() - begin)


def _is_cut_off() -> bool:
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0
