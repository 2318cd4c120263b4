"""Routes of `/agents`: orders to other machines and their reports (`agents.agent_protocol`)."""

import asyncio
import contextlib
import functools
import random
from typing import Annotated, Final

import anyio
import fastapi

from quintain import errors
from quintain.cluster.agents import agent_launcher, agent_protocol
from quintain.server.http import responses
from quintain.server.routes import parts as parts_lib

_LEAST_PART: Final = 0.75
"""Part of the time that they ask for in which agents wait at least."""

router = responses.build_router("/agents", tags=["agents"])


@router.put("/{name}")
async def register(parts: parts_lib.Given, name: str, request: fastapi.Request) -> fastapi.Response:
    """Begins a session of an agent."""
    body = await request.body()

    def begin() -> agent_protocol.Welcome:
        # What another version says may not be understood.
        agent_protocol.check_versions(agent_protocol.parse(agent_protocol.Versions, body))
        hello = agent_protocol.parse(agent_protocol.Hello, body)
        if hello.name != name:
            raise errors.ConfigError(f"name: got {hello.name[:200]!r}, expected {name[:200]!r}.")
        return _find_launcher(parts).register(hello)

    return _to_response(await anyio.to_thread.run_sync(begin))


@router.get("/{name}/orders")
async def find_orders(
    parts: parts_lib.Given,
    name: str,
    session: str,
    after: Annotated[int, fastapi.Query(ge=0)] = 0,
    kept: Annotated[int, fastapi.Query(ge=0)] = 0,
    wait: Annotated[float, fastapi.Query(ge=0, allow_inf_nan=False)] = 0.0,
) -> fastapi.Response:
    """Says what to do, once there is something or the time is over; 410 ends the session."""
    launcher, loop = _find_launcher(parts), asyncio.get_running_loop()
    # Hundreds that came together do not come together again.
    part = random.uniform(_LEAST_PART, 1.0)
    deadline_secs = loop.time() + part * min(wait, agent_protocol.MAX_WAIT_SECS)
    while True:
        woken = asyncio.Event()
        wake = functools.partial(loop.call_soon_threadsafe, woken.set)
        with launcher.waker_registered(name, wake):
            orders = launcher.find_orders(name, session, after=after, kept=kept)
            if orders is not None or loop.time() >= deadline_secs or parts.is_stopping():
                return _to_response(orders or agent_protocol.Orders(kept=kept))
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout_at(deadline_secs):
                    await woken.wait()


@router.post("/{name}/reports")
async def report(
    parts: parts_lib.Given, name: str, session: str, request: fastapi.Request
) -> fastapi.Response:
    """Takes what has happened on a machine; the same report again changes nothing."""
    body = await request.body()

    def take() -> None:
        content = agent_protocol.parse(agent_protocol.Report, body)
        _find_launcher(parts).receive(name, session, content)

    await anyio.to_thread.run_sync(take)
    return responses.to_response({})


@router.delete("/{name}")
async def leave(parts: parts_lib.Given, name: str, session: str) -> fastapi.Response:
    """Forgets an agent that ends."""
    _find_launcher(parts).leave(name, session)
    return responses.to_response({})


def _find_launcher(parts: parts_lib.Parts) -> agent_launcher.AgentLauncher:
    if parts.agents is None:
        raise errors.ConfigError(
            "This master takes no agents: it was started with --launcher=local, or by a command "
            "that follows its own experiment."
        )
    return parts.agents


def _to_response(record: object) -> fastapi.Response:
    return responses.to_response(agent_protocol.to_plain(record))
