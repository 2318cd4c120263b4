"""Lets the processes of trials in, some at a time, when thousands of them ask at once.

A request that is worked on takes 25 KiB and more. One that waits here takes little, and its answer
comes no later: only so many threads work. It stands behind the checks of tokens and bodies: a place
is held neither by who may not ask, nor while a body comes in or an answer goes out, however slowly.
"""

import asyncio
import re
from collections.abc import Callable
from typing import Final

import fastapi
from starlette import types

_PATH: Final = re.compile(r"/api/v1/trials/[^/]+/runs(?!/[^/]+/files/)(/.*)?")
"""Not files: the routes read them as they come in, and a slow one would keep all others out."""

_MOST: Final = 64
"""Requests that are worked on; somewhat more than there are threads."""

_LEAVE: Final = "leave_gate"


class WorkerGate:
    """Stands before an app: passes on so many requests of trials' processes at a time."""

    def __init__(self, app: types.ASGIApp, *, most: int = _MOST) -> None:
        """Stores what answers, and how many requests are worked on at once."""
        self._app = app
        self._room = asyncio.Semaphore(most)

    async def __call__(self, scope: types.Scope, receive: types.Receive, send: types.Send) -> None:
        """Handles a request as ASGI has it."""
        if scope["type"] != "http" or _PATH.fullmatch(scope["path"]) is None:
            await self._app(scope, receive, send)
            return
        await self._room.acquire()
        has_left = False

        def leave() -> None:
            nonlocal has_left
            if not has_left:
                has_left = True
                self._room.release()

        async def send_outside(message: types.Message) -> None:
            leave()
            await send(message)

        scope.setdefault("state", {})[_LEAVE] = leave
        try:
            await self._app(scope, receive, send_outside)
        finally:
            leave()


def leave(request: fastapi.Request) -> None:
    """Lets another request in, because this one is about to wait."""
    done: Callable[[], None] | None = getattr(request.state, _LEAVE, None)
    if done is not None:
        done()
