"""The end of a server is no fault of the requests that it cuts off."""

import asyncio
import contextlib
import json
import logging
import socket

import fastapi
import pytest
from fastapi import responses

from quintain.web import http_server, request_life

ASK = b"GET /%s HTTP/1.1\r\nHost: x\r\n\r\n"


def refuse(status_code, message):
    return responses.JSONResponse({"detail": message}, status_code)


def build_app(begun=lambda: None):
    """Returns an app that never answers, or never ends its answer."""
    app = fastapi.FastAPI()
    app.add_middleware(request_life.RequestLife, refuse=refuse)

    @app.get("/never")
    async def wait():
        begun()
        await asyncio.Event().wait()

    @app.get("/endless")
    async def go_on():
        async def produce():
            begun()
            while True:
                yield b"a"
                await asyncio.sleep(0.01)

        return responses.StreamingResponse(produce())

    return app


@pytest.fixture
def end_while_asked(monkeypatch, caplog):
    """Returns a function that ends a server while a request waits; it gives answer and log."""
    monkeypatch.setattr(http_server, "_GRACE_SECS", 0.01)

    def run(path):
        with contextlib.ExitStack() as stack:
            listener = stack.enter_context(contextlib.closing(http_server.listen(0, 0)))
            seen = []
            served = build_app(lambda: seen.append(path))
            with http_server.serve(served, listener):
                asked = stack.enter_context(socket.create_connection(listener.getsockname()))
                asked.settimeout(60)
                asked.sendall(ASK % path)
                while not seen:
                    pass
            answer = b""
            with contextlib.suppress(ConnectionResetError):
                while piece := asked.recv(2**16):
                    answer += piece
        faults = [one for one in caplog.records if one.levelno >= logging.ERROR]
        assert [one for one in faults if one.exc_info] == []
        return answer

    return run


def test_who_is_cut_off_is_told_to_come_again(end_while_asked):
    head, _, body = end_while_asked(b"never").partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 503 ")
    assert json.loads(body) == {"detail": "The server is shutting down."}


def test_an_answer_that_has_begun_ends_where_it_is(end_while_asked):
    answer = end_while_asked(b"endless")
    assert answer.startswith(b"HTTP/1.1 200 ")
    assert answer.count(b"HTTP/1.1") == 1
    assert not answer.endswith(b"0\r\n\r\n")  # Which would say that it is complete.


def test_an_end_that_is_cut_off_itself_says_nothing():
    sent = []

    async def send(message):
        sent.append(message)

    async def run():
        started = asyncio.Event()
        messages = [{"type": "lifespan.startup"}]

        async def receive():
            if messages:
                return messages.pop()
            started.set()
            return await asyncio.Event().wait()

        scope = {"type": "lifespan", "asgi": {"version": "3.0"}, "state": {}}
        task = asyncio.ensure_future(build_app()(scope, receive, send))
        await started.wait()
        task.cancel()
        await task

    asyncio.run(run())
    assert [message["type"] for message in sent] == ["lifespan.startup.complete"]


def test_a_task_that_cancels_itself_is_a_fault_as_ever():
    async def give_up(scope, receive, send):
        raise asyncio.CancelledError

    observed = []
    stands = request_life.RequestLife(
        give_up, refuse=refuse, observe=lambda scope, status, secs: observed.append(status)
    )
    with pytest.raises(asyncio.CancelledError):
        asyncio.run(stands({"type": "http"}, None, None))
    assert observed == [500]
