import asyncio
import json

import pytest
from starlette import responses

from quintain.web import request_checks

BODY = json.dumps({"texts": ["a" * 50]}).encode()


class Server:
    """An app behind the check of bodies, of which one has room at a time."""

    def __init__(self, *, leaves_early=False, patience_secs=60.0):
        self.given = []
        self.num_inside = self.most_inside = 0
        self.goes_on = asyncio.Event()
        self._leaves_early = leaves_early
        self._check = request_checks.BodyCheck(
            self._answer,
            refuse=lambda status, message: responses.PlainTextResponse(message, status),
            find_max_bytes=lambda _: 1000,
            max_held_bytes=1000,
            room=request_checks.ParsingRoom(len(BODY), patience_secs=patience_secs),
        )

    async def _answer(self, scope, receive, send):
        self.given.append(request_checks.take_json(scope))
        if self._leaves_early:
            request_checks.leave_room(scope)
        self.num_inside += 1
        self.most_inside = max(self.most_inside, self.num_inside)
        await self.goes_on.wait()
        self.num_inside -= 1
        await responses.PlainTextResponse("")(scope, receive, send)

    async def ask(self, body=BODY):
        """Returns the status of the answer."""
        headers = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(body))]
        scope = {"type": "http", "method": "POST", "path": "/", "headers": headers}
        sent = []

        async def receive():
            return {"type": "http.request", "body": body}

        async def send(message):
            sent.append(message)

        await self._check(scope, receive, send)
        return sent[0]["status"]


async def ask_several(server, count=3):
    asked = [asyncio.create_task(server.ask()) for _ in range(count)]
    await asyncio.sleep(0.01)
    server.goes_on.set()
    return [await one for one in asked]


@pytest.mark.parametrize(("leaves_early", "most_inside"), [(False, 1), (True, 3)])
def test_bodies_wait_until_what_was_parsed_before_them_is_gone(leaves_early, most_inside):
    async def run():
        server = Server(leaves_early=leaves_early)
        return server, await ask_several(server)

    server, statuses = asyncio.run(run())

    assert statuses == [200] * 3
    assert server.given == [json.loads(BODY)] * 3
    assert server.most_inside == most_inside


def test_a_body_that_waits_for_too_long_is_refused_and_one_that_is_no_json_leaves_room():
    async def run():
        server = Server(patience_secs=0.02)
        first = asyncio.create_task(server.ask())
        await asyncio.sleep(0)
        second = await server.ask()
        server.goes_on.set()
        return [await first, second, await server.ask(b"{" * len(BODY)), await server.ask()]

    assert asyncio.run(run()) == [200, 503, 400, 200]
