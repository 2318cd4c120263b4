"""`/events`: what changes, as server-sent events."""

import asyncio
import functools
import json
import time
from collections.abc import AsyncIterator, Callable
from typing import Annotated, Final

import anyio
import fastapi

from quintain import errors
from quintain.client.home import token_files
from quintain.records.rows import codec
from quintain.server.feed import changes, cursors
from quintain.server.feed import feed as feed_lib
from quintain.server.http import answers, responses
from quintain.server.routes import parts as parts_lib
from quintain.server.security import access, visible_slots

_KEEP_ALIVE_SECS: Final = 15.0
_RETRY_MSECS: Final = 1000
_HEADERS: Final = {"Cache-Control": "no-cache", "X-Accel-Buffering": "no"}


router = responses.build_router(tags=["events"])


@router.get(
    "/events",
    response_class=fastapi.responses.StreamingResponse,
    responses={200: {"model": answers.Changes, "content": {"text/event-stream": {}}}},
)
async def follow(
    parts: parts_lib.Given,
    request: fastapi.Request,
    experiment_id: int | None = None,
    trial_id: int | None = None,
    cursor: str | None = None,
    last_event_id: Annotated[str | None, fastapi.Header()] = None,
) -> fastapi.Response:
    """Streams what changes.

    Events: `changes` (experiments, deleted_experiments, trials, cuts, metrics, logs, checkpoints,
    models: to be applied in this order), `status` (what runs where, as `/master/status`; of more
    than 256 slots, as `/master/summary`) and `reset` (the cursor is not known any more; all is to
    be fetched anew). The `id` of an event is the cursor to go on from, as `Last-Event-ID` or
    `cursor`; without either it begins now.
    """
    if parts.feed is None:
        raise errors.NotFoundError("This master has no feed of changes.")
    owner = experiment_id
    if experiment_id is not None:
        await anyio.to_thread.run_sync(parts.calls.get_experiment, experiment_id)
    if trial_id is not None:
        trial = await anyio.to_thread.run_sync(parts.calls.get_trial, trial_id)
        owner = trial.experiment_id if owner is None else owner
    user = getattr(request.state, access.USER)
    is_owner = user == token_files.OWNER
    which = owner, trial_id, None if is_owner else functools.partial(parts.roles.may_read, user)

    def write_status(status: feed_lib.Status) -> str:
        shown = visible_slots.VisibleSlots(parts.roles, user).of_status(status)
        plain = {**codec.to_plain(shown), "time": time.time()}
        return f"event: status\ndata: {json.dumps(plain, separators=(',', ':'))}\n\n"

    texts = _stream(parts.feed, last_event_id or cursor, which, write_status)
    return fastapi.responses.StreamingResponse(
        texts, media_type="text/event-stream", headers=_HEADERS
    )


_Which = tuple[int | None, int | None, Callable[[int], bool] | None]
"""Experiment, trial and which experiments may be read, as `Batch.encode` takes them."""


async def _stream(
    feed: feed_lib.Feed,
    cursor: str | None,
    which: _Which,
    write_status: Callable[[feed_lib.Status], str],
) -> AsyncIterator[str]:
    follower = feed_lib.Follower(asyncio.get_running_loop())
    try:
        try:
            newest = await anyio.to_thread.run_sync(feed.add, follower)
            home, start = await anyio.to_thread.run_sync(feed.find_start, cursor or "", newest)
        except errors.StoreError:
            # Why nothing can be read is in the status; who follows comes again.
            yield await anyio.to_thread.run_sync(lambda: write_status(feed.find_status()))
            return
        told = newest if start is None else start
        yield f"retry: {_RETRY_MSECS}\nid: {cursors.write(home, told)}\n\n"
        try:
            while told < newest:
                batch = await anyio.to_thread.run_sync(feed.read, told)
                if batch is None:
                    break
                told = batch.until
                yield await _write_batch(batch, which)
        except errors.StoreError:
            start, told = None, newest
        if start is None and cursor:
            yield f"id: {cursors.write(home, told)}\nevent: reset\ndata: {{}}\n\n"
        async for item in _wait(follower):
            if item is None:
                # The cursor goes on also where nothing is told.
                yield f": keep-alive\nid: {cursors.write(home, told)}\n\n"
            elif isinstance(item, feed_lib.Status):
                yield await anyio.to_thread.run_sync(write_status, item)
            elif item.until > told:
                told = item.until
                yield await _write_batch(item, which)
    finally:
        feed.remove(follower)


async def _wait(follower: feed_lib.Follower) -> AsyncIterator[feed_lib.Item | None]:
    """Yields what a follower is told, and None for each time in which that is nothing."""
    while True:
        try:
            item = await asyncio.wait_for(follower.next(), _KEEP_ALIVE_SECS)
        except TimeoutError:
            yield None
        else:
            if item is None:
                return
            yield item


async def _write_batch(batch: changes.Batch, which: _Which) -> str:
    reads_store = which[2] is not None
    encode = functools.partial(batch.encode, *which)
    text = await anyio.to_thread.run_sync(encode) if reads_store else encode()
    return "" if text is None else f"id: {batch.cursor}\nevent: changes\ndata: {text}\n\n"
