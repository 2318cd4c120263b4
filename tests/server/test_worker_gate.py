"""Of thousands of trials' processes that ask at once, some are worked on at a time."""

import asyncio
import contextlib
import itertools
import socket
import urllib.parse

import fastapi

from quintain.master.processes import launch_tokens
from quintain.server import worker_gate

KEY = launch_tokens.LaunchKey(bytes(32))
RUNS = "/api/v1/trials/7/runs"


async def _ask(gate, path):
    await gate({"type": "http", "path": path}, None, None)


def test_some_are_let_in_at_a_time_and_the_next_ones_when_these_end_or_wait():
    async def watch():
        inside, doors = [], {}

        async def work(scope, receive, send):
            inside.append(scope["path"])
            doors[scope["path"]] = door = asyncio.Event()
            if scope["path"].endswith("workload"):
                worker_gate.leave(fastapi.Request(scope))
                worker_gate.leave(fastapi.Request(scope))
            await door.wait()
            if scope["path"].endswith("broken"):
                raise ValueError

        gate = worker_gate.WorkerGate(work, most=2)
        paths = ["a/results", "b/broken", "c/workload", "d/results", "e/results", "f/results"]
        asked = [asyncio.create_task(_ask(gate, f"{RUNS}/{path}")) for path in paths]
        free = [f"{RUNS}/g/files/uploads/1", "/api/v1/experiments"]
        asked += [asyncio.create_task(_ask(gate, path)) for path in free]
        seen = []

        async def look():
            for _ in range(5):
                await asyncio.sleep(0)
            seen.append([path.rpartition("runs/")[2] for path in inside])
            inside.clear()

        await look()
        doors[f"{RUNS}/b/broken"].set()
        await look()
        doors[f"{RUNS}/a/results"].set()
        await look()
        for _ in range(2):
            for door in doors.values():
                door.set()
            await look()
        results = await asyncio.gather(*asked, return_exceptions=True)
        return seen, [type(each) for each in results if each is not None]

    seen, faults = asyncio.run(watch())

    assert seen[0] == ["a/results", "b/broken", "g/files/uploads/1", "/api/v1/experiments"]
    assert seen[1] == ["c/workload", "d/results"]
    assert seen[2] == ["e/results"]
    assert seen[3] == ["f/results"]
    assert faults == [ValueError]


def test_who_sends_slowly_or_has_no_token_or_does_not_read_keeps_nobody_out(url, http):
    host = urllib.parse.urlsplit(url).netloc
    name, _, port = host.partition(":")
    token = KEY.build_token(7, "slow")

    def begin(line, given):
        return (
            f"{line} HTTP/1.1\r\nHost: {host}\r\nAuthorization: Bearer {given}\r\n"
            "Content-Type: application/json\r\nContent-Length: 1000\r\n\r\n{"
        ).encode()

    lines = [f"POST {RUNS}/slow/results", f"POST {RUNS}", f"PUT {RUNS}/slow/wait"]
    with contextlib.ExitStack() as connected:
        for line, given in itertools.product(lines * 25, ("wrong", token)):
            one = connected.enter_context(socket.create_connection((name, int(port)), timeout=20))
            one.sendall(begin(line, given))
        good = f"Bearer {KEY.build_token(8, 'good')}"
        path = "/api/v1/trials/8/runs/good/wait"
        answers = [
            http("PUT", path, authorization=good, body={"waits_for": ""}).status for _ in range(3)
        ]

    assert answers == [200] * 3


def test_a_place_is_free_as_soon_as_an_answer_goes_out():
    async def watch():
        begun, never = [], asyncio.Event()

        async def work(scope, receive, send):
            await send({"type": "http.response.start", "status": 200, "headers": []})

        async def send(message):
            begun.append(message["type"])
            await never.wait()

        gate = worker_gate.WorkerGate(work, most=1)
        asked = [
            asyncio.create_task(gate({"type": "http", "path": f"{RUNS}/a/results"}, None, send))
            for _ in range(3)
        ]
        for _ in range(5):
            await asyncio.sleep(0)
        never.set()
        await asyncio.gather(*asked)
        return begun

    assert len(asyncio.run(watch())) == 3
