"""Lets agents wait for orders, and answers them, before their requests are worked on.

Of a thousand agents nearly all wait at any time. One that waits inside of a route keeps all that
was made for its request, 25 KiB; here it is little, because this stands before everything else. And
what most are told, that there is nothing to do, takes a fraction of the time of another request. So
only those wait that show the token of agents, and what is wrong with a request says the route.
"""

import asyncio
import functools
import random
import urllib.parse
from collections.abc import Callable
from typing import Final

from starlette import types

from quintain import errors
from quintain.client.home import token_files
from quintain.cluster.agents import agent_launcher, agent_protocol
from quintain.server.http import responses
from quintain.server.security import access
from quintain.web import connections

_BEGIN: Final = f"{agent_protocol.PATH}/"
_END: Final = "/orders"
_LEAST_PART: Final = 0.75
"""Part of the time that they ask for in which agents wait at least."""


class AgentWaits:
    """Stands before an app: answers requests for orders, and passes on what is wrong with one."""

    def __init__(
        self,
        app: types.ASGIApp,
        launcher: agent_launcher.AgentLauncher,
        *,
        token: token_files.KnownToken,
        is_stopping: Callable[[], bool],
    ) -> None:
        """Stores its parts.

        Args:
            app: What answers; it does not wait.
            launcher: Knows the orders.
            token: The token of agents.
            is_stopping: Whether the server is about to stop, and nobody should wait any more.
        """
        self._app = app
        self._launcher = launcher
        self._token = token
        self._is_stopping = is_stopping

    async def __call__(self, scope: types.Scope, receive: types.Receive, send: types.Send) -> None:
        """Handles a request as ASGI has it."""
        if scope["type"] == "http" and (name := self._find_agent(scope)):
            # It is one of the cluster as long as it waits, and not one of those not heard yet.
            scope.setdefault("state", {})[connections.KNOWN] = True
            orders = await self._wait(name, scope["query_string"].decode("latin-1"))
            if orders is not None:
                answer = responses.to_response(agent_protocol.to_plain(orders))
                answer.headers.update(responses.HEADERS)
                await answer(scope, receive, send)
                return
        await self._app(scope, receive, send)

    def _find_agent(self, scope: types.Scope) -> str:
        """Returns the agent that asks for orders; empty if it is none, or not for orders."""
        if scope["method"] != "GET" or not scope["path"].endswith(_END):
            return ""
        name = scope["path"].removeprefix(_BEGIN).removesuffix(_END)
        if len(_BEGIN) + len(name) + len(_END) != len(scope["path"]):
            return ""
        given = access.read_token(scope)
        return name if given is not None and self._token.is_good(given) else ""

    async def _wait(self, name: str, query_text: str) -> agent_protocol.Orders | None:
        """Returns what an agent is to do, once there is something or its time is over.

        Returns:
            It, or None at once if anything is wrong.
        """
        query = dict(urllib.parse.parse_qsl(query_text))
        try:
            after, kept = int(query.get("after", 0)), int(query.get("kept", 0))
            wait_secs = float(query.get("wait", 0.0))
        except ValueError:
            return None
        if not (after >= 0 and kept >= 0 and wait_secs >= 0):
            return None
        loop, launcher = asyncio.get_running_loop(), self._launcher
        # A thousand that came together do not come together again.
        part = random.uniform(_LEAST_PART, 1.0)
        deadline_secs = loop.time() + part * min(wait_secs, agent_protocol.MAX_WAIT_SECS)
        while True:
            # One that is awaited directly needs less than an event.
            woken: asyncio.Future[None] = loop.create_future()
            try:
                with launcher.waker_registered(
                    name, functools.partial(loop.call_soon_threadsafe, _wake, woken)
                ):
                    found = launcher.find_orders(
                        name, query.get("session", ""), after=after, kept=kept
                    )
                    left_secs = deadline_secs - loop.time()
                    if found is not None or not left_secs > 0 or self._is_stopping():
                        return found or agent_protocol.Orders(kept=kept)
                    timer = loop.call_later(left_secs, _wake, woken)
                    try:
                        await woken
                    finally:
                        timer.cancel()
            except errors.GoneError:
                return None


def _wake(woken: "asyncio.Future[None]") -> None:
    if not woken.done():
        woken.set_result(None)
