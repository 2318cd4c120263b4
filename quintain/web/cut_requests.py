"""Answers requests that the end of the server cuts off.

A server that ends gives requests some time, and then ends the tasks that work on them. Left alone,
uvicorn would write a stack trace for each of them, and tell their clients of a fault that there is
none. To clients it is the same as if they had come a moment later.
"""

import asyncio
import contextlib
from typing import Final

from quintain.web import request_checks

_FAREWELL_SECS: Final = 1.0
"""Seconds that an answer may take that its client might not read."""


class CutRequests:
    """Stands before an app: whom the end of the server cuts off is told to come again."""

    def __init__(self, app: request_checks.App, *, refuse: request_checks.Refuse) -> None:
        """Stores its settings.

        Args:
            app: What answers.
            refuse: Builds the answer of this class.
        """
        self._app = app
        self._refuse = refuse

    async def __call__(
        self,
        scope: request_checks.Scope,
        receive: request_checks.Receive,
        send: request_checks.Send,
    ) -> None:
        """Handles a request as ASGI has it."""
        has_begun = False

        async def send_seen(message: request_checks.Message) -> None:
            nonlocal has_begun
            # Starlette sends the stack trace of a start or end that was cut off, too.
            if not (message["type"].endswith(".failed") and _is_cut_off()):
                has_begun = True
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
                        await refused(scope, receive, send)


def _is_cut_off() -> bool:
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0
