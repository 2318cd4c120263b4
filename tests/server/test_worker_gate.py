"""Of thousands of trials' processes that ask at once, some are worked on at a time."""

import asyncio

import fastapi

from quintain.server import worker_gate

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
