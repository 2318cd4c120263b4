"""Processes of trials that only pretend to train: they ask for work, wait, and answer."""

import asyncio
import random
import time
import uuid
from collections.abc import Callable
from typing import Any

from scale_cluster import http_pool

_GONE = 410


class RefusedError(Exception):
    """The master does not take what a process says: nothing that is measured means anything."""


async def run(
    url: str,
    address: str,
    launch: dict[str, Any],
    *,
    secs: float,
    draw: random.Random,
    first: bool,
    note_training: Callable[[], None],
) -> bool:
    """Is one process of a trial, from its start to its end.

    Args:
        url: Address of the master.
        address: Address of the machine.
        launch: What it was started with.
        secs: Mean seconds that a training workload takes.
        draw: Source of random numbers.
        first: Whether it is among the first of its slot, which end at all times of a training.
        note_training: Is called when it begins to train.

    Returns:
        Whether it was wanted until then.

    Raises:
        RefusedError: If the master does not take what it says.
    """
    environment = launch["environment"]
    trial_id, launch_id = launch["trial_id"], launch["launch_id"]
    runs = f"/api/v1/trials/{trial_id}/runs"
    client = http_pool.Client(url, environment["QUINTAIN_TOKEN"], address)
    identity = {"pid": trial_id, "start_time": time.time(), "launch_id": launch_id, "mark": "x"}
    try:
        status, _ = await client.ask("POST", runs, identity)
        if status >= 400:
            return False
        status, work = 204, None
        while True:
            if not work:
                status, work = await client.ask("GET", f"{runs}/{launch_id}/workload?wait=20")
            if status == 204:
                continue
            if status >= 400 or work["kind"] == "TERMINATE":
                return bool(status < 400)
            result: dict[str, Any] = {"workload": work, "start_time": 0.0, "end_time": 0.1}
            match work["kind"]:
                case "TRAIN":
                    note_training()
                    await asyncio.sleep(secs * (draw.random() if first else draw.uniform(0.5, 1.5)))
                    result |= {"metrics": {"loss": draw.random()}, "num_inputs": 32}
                case "VALIDATE":
                    result |= {"metrics": {"loss": draw.random()}, "num_inputs": 32}
                case _:
                    name = str(uuid.UUID(int=draw.getrandbits(128), version=4))
                    result |= {"checkpoint": {"uuid": name, "files": {"state": 1}}}
            path = f"{runs}/{launch_id}/results"
            status, work = await client.ask("POST", path, result)
            while status >= 500:  # As real ones do.
                await asyncio.sleep(1.0)
                status, work = await client.ask("POST", path, result)
            if status >= 400 and status != _GONE:
                raise RefusedError(f"The master refuses a result: {work}")
    finally:
        client.close()
