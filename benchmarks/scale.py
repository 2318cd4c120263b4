"""What a master costs with 1,250 machines, 10,000 slots, beside what it costs with 10.

python benchmarks/scale.py [--nodes 1250] [--slots 8] [--rate 15] [--stored 100000] [--secs 20]

The master is a process as users start it, with a database that knows many ended trials already.
The machines and the processes of trials are pretended: they register, ask and answer over HTTP as
agents and trials do, and wait where those train. How long a training takes follows from the number
of slots, so that the same number of trials ends in a second whatever the number of machines; the
search is the same, too. Then the figures of both runs, and their ratios:

- seconds of the master's processor for each trial that ended, and its memory, while nobody asks;
- from the exit of a process to the start of the next one on its slot, as the machine sees it;
- then how long the API takes to answer what the page and the command line ask, once a second, and
  what these questions cost the master; last, the list of everything, which is as long as there is
  much.
"""

import argparse
import asyncio
import contextlib
import json
import os
import pathlib
import random
import resource
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Iterator
from typing import Any

import page
from scale_cluster import cluster

from quintain import store as stores
from quintain.client import connection, master_file, token_files
from quintain.testing import made_search

CONFIG = {
    "name": "scale",
    "entrypoint": "model_def:Pretended",
    "hyperparameters": {"rate": {"type": "double", "minval": 0, "maxval": 1}},
    "searcher": {"name": "random", "metric": "loss", "max_length": {"batches": 100}},
    "reproducibility": {"experiment_seed": 1},
    "scheduling_unit": 100,
}
SETTLE_SECS = 10.0
WHOLE_SECS = 5.0
PATHS = (
    "/api/v1/master/summary",
    "/api/v1/slots?limit=100",
    "/api/v1/experiments",
    "/api/v1/experiments/2",
    "/api/v1/experiments/2/trials?limit=100",
)
WHOLE_PATH = "/api/v1/master/status"
"""It lists all slots and all trials that run, for who shows them all."""


def main() -> None:
    """Prints the figures of both sizes."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, default=1250)
    parser.add_argument("--few_nodes", type=int, default=10)
    parser.add_argument("--slots", type=int, default=8, help="of each node")
    parser.add_argument("--rate", type=float, default=15.0, help="trials that end in a second")
    parser.add_argument("--stored", type=int, default=100_000, help="ended trials in the store")
    parser.add_argument("--secs", type=float, default=20.0, help="of each measurement")
    options = parser.parse_args()
    # So that the master ends with it.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    print(f"{page.describe_processor()}; {options.stored:,} ended trials in the store")
    found = {}
    for num_nodes in (options.few_nodes, options.nodes):
        found[num_nodes] = measure(num_nodes, options)
        print(f"{num_nodes} nodes of {options.slots} slots: {json.dumps(found[num_nodes])}")
    few, many = found.values()
    print("| | " + " | ".join(f"{each} nodes" for each in found) + " | ratio |\n|---|---|---|---|")
    for name, value in many.items():
        print(f"| {name} | {few[name]:.4g} | {value:.4g} | {value / max(few[name], 1e-9):.2f} |")


def measure(num_nodes: int, options: argparse.Namespace) -> dict[str, float]:
    """Returns the figures of a cluster of so many nodes."""
    with tempfile.TemporaryDirectory() as directory:
        home = pathlib.Path(directory) / "home"
        with fill(home, options.stored), serve(home) as (url, pid):
            return asyncio.run(_measure(home, url, pid, num_nodes, options))


@contextlib.contextmanager
def fill(home: pathlib.Path, num_trials: int) -> Iterator[None]:
    """Writes ended trials into the store of a home."""
    home.mkdir(mode=0o700)
    store = stores.open_store(home / "quintain.db")
    if num_trials:
        made_search.write_search(store, num_trials)
    store.close()
    yield


@contextlib.contextmanager
def serve(home: pathlib.Path) -> Iterator[tuple[str, int]]:
    """Starts a master without slots of its own; gives its address and process."""
    environment = {**os.environ, "QUINTAIN_HOME": str(home)}
    port = page.find_port()
    command = ["master", "start", "--slots=0", f"--port={port}", "--new_database"]
    with (home / "master.out").open("wb") as output:
        process = subprocess.Popen(
            [sys.executable, "-m", "quintain.cli.main", *command],
            env=environment,
            stdout=output,
            stderr=output,
        )
    try:
        while (found := master_file.read(home)) is None or found.pid != process.pid:
            if process.poll() is not None:
                raise SystemExit((home / "master.out").read_text())
            time.sleep(0.05)
        yield f"http://127.0.0.1:{port}", process.pid
    finally:
        process.send_signal(signal.SIGKILL)
        process.wait()


async def _measure(
    home: pathlib.Path, url: str, pid: int, num_nodes: int, options: argparse.Namespace
) -> dict[str, float]:
    num_slots = num_nodes * options.slots
    token = token_files.load(home / "agent.token")
    pretended = cluster.Cluster(url, token, secs=num_slots / options.rate, draw=random.Random(1))
    await pretended.join(num_nodes, options.slots)
    found = master_file.read(home)
    assert found is not None
    asking = connection.Connection(found.address)
    max_trials = 2 * max(options.nodes, options.few_nodes) * options.slots + 10_000
    config = {**CONFIG, "searcher": {**CONFIG["searcher"], "max_trials": max_trials}}
    body = {"config_text": json.dumps(config)}
    await asyncio.to_thread(asking.request, "POST", "/api/v1/experiments", body=body)
    begin = time.monotonic()
    while pretended.num_trained < 0.99 * num_slots:
        await asyncio.sleep(0.1)
    filled = time.monotonic() - begin
    await asyncio.sleep(SETTLE_SECS)
    pretended.pauses.clear()
    running, memory = pretended.num_running, read_memory(pid)
    rate, share, unasked = await _observe(pretended, pid, asyncio.sleep(options.secs))
    result: dict[str, Any] = {
        "trials running": running,
        "until all slots train, s": filled,
        "trials ended in a second": rate,
        "master's processor, %": 100 * share,
        "master's processor, ms a trial": unasked,
        "memory, MiB": memory,
        "free slot to next start, median ms": 1000 * statistics.median(pretended.pauses or [0.0]),
        "free slot to next start, 95 % ms": 1000 * find_high(pretended.pauses or [0.0]),
    }
    answers: dict[str, list[float]] = {path: [] for path in PATHS}
    _, _, asked = await _observe(pretended, pid, _ask(asking, answers, options.secs))
    result["master's processor, ms a trial, with questions"] = asked
    for path, times in answers.items():
        result[f"GET {path.removeprefix('/api/v1')}, median ms"] = statistics.median(times)
        result[f"GET {path.removeprefix('/api/v1')}, 95 % ms"] = find_high(times)
    answers = {WHOLE_PATH: []}
    await _ask(asking, answers, WHOLE_SECS)
    result["GET all slots, median ms"] = statistics.median(answers[WHOLE_PATH])
    await pretended.leave()
    return result


async def _observe(
    pretended: cluster.Cluster, pid: int, doing: Awaitable[None]
) -> tuple[float, float, float]:
    """Returns trials a second, the part of the processor, and ms of it for each trial meanwhile."""
    ended, cpu, begin = pretended.num_ended, read_cpu(pid), time.monotonic()
    await doing
    secs, used = time.monotonic() - begin, read_cpu(pid) - cpu
    ended = pretended.num_ended - ended
    return ended / secs, used / secs, 1000 * used / max(ended, 1)


async def _ask(asking: connection.Connection, answers: dict[str, list[float]], secs: float) -> None:
    """Asks once a second, and notes the milliseconds that each answer takes."""
    begin = time.monotonic()
    while time.monotonic() - begin < secs:
        for path, times in answers.items():
            at = time.perf_counter()
            await asyncio.to_thread(asking.request, "GET", path)
            times.append(1000 * (time.perf_counter() - at))
        await asyncio.sleep(1.0)


def find_high(values: list[float]) -> float:
    """Returns what 95 % of the values do not exceed."""
    return sorted(values)[int(0.95 * (len(values) - 1))]


def read_cpu(pid: int) -> float:
    """Returns the seconds of the processor that a process has used."""
    fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def read_memory(pid: int) -> float:
    """Returns the MiB that a process holds."""
    text = pathlib.Path(f"/proc/{pid}/status").read_text()
    return int(text.partition("VmRSS:")[2].split()[0]) / 1024


if __name__ == "__main__":
    main()
