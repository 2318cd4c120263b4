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
  much;
- at the end the master is killed, and the next one started at once: when it answers, when all
  machines are there again, and whether anything ran twice or was given up.

The few machines are measured before and after the many; the table has the means of both. The whole
takes about seven minutes, and needs both cores of a machine of two.
"""

import argparse
import asyncio
import json
import os
import pathlib
import random
import resource
import shutil
import signal
import statistics
import sys
import tempfile
import time
from collections.abc import Awaitable, Sequence

import page
from scale_cluster import cluster, masters

from quintain import store as stores
from quintain.client.home import master_file, token_files
from quintain.client.http import connection
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

AFTERWARDS_SECS = 15.0
HIGH = " (95 %)"
PER_TRIAL = "master's processor, ms a trial"
RATED = (
    *(PER_TRIAL, f"{PER_TRIAL}, with the questions below"),
    *("from a free slot to the next start, ms", "memory, MiB"),
    *(f"GET {path.removeprefix('/api/v1')}, ms" for path in PATHS),
)
"""What is to stay within twice that of few machines; all else is as much as there is."""


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
    few, many = options.few_nodes, options.nodes
    with tempfile.TemporaryDirectory() as directory:
        filled = fill(pathlib.Path(directory) / "filled", options.stored)
        before, figures, after = (measure(filled, each, options) for each in (few, many, few))
    print_table((before, after), figures, options)


def print_table(
    around: Sequence[dict[str, float]], many: dict[str, float], options: argparse.Namespace
) -> None:
    """Prints the table of `benchmarks/results/scale.md`, with ratios beyond twice in bold."""
    few = {name: statistics.mean(each[name] for each in around) for name in many}
    heads = [
        f"{n:,} machines, {n * options.slots:,} slots" for n in (options.few_nodes, options.nodes)
    ]
    print(f"\n| | {heads[0]} | {heads[1]} | ratio |\n|---|---|---|---|")
    for name, value in many.items():
        if name.endswith(HIGH):
            continue
        cells, ratios = [f"{few[name]:.3g}", f"{value:,.4g}"], [value / max(few[name], 1e-9)]
        if (high := name + HIGH) in many:
            cells = [f"{cells[0]} ({few[high]:.3g})", f"{cells[1]} ({many[high]:.3g})"]
            ratios.append(many[high] / max(few[high], 1e-9))
        texts = [f"**{each:.2f}**" if each > 2 else f"{each:.2f}" for each in ratios]
        ratio = texts[0] + "".join(f" ({each})" for each in texts[1:])
        print(f"| {name} | {cells[0]} | {cells[1]} | {ratio if name in RATED else ''} |")
    for name in ("memory, MiB", PER_TRIAL):
        print(f"{name}, of few machines: {', '.join(f'{each[name]:.3g}' for each in around)}")


def measure(filled: pathlib.Path, num_nodes: int, options: argparse.Namespace) -> dict[str, float]:
    """Returns the figures of a cluster of so many nodes.

    Args:
        filled: A home directory with ended trials, which is copied.
        num_nodes: How many.
        options: The others.
    """
    with tempfile.TemporaryDirectory() as directory:
        home = pathlib.Path(directory) / "home"
        shutil.copytree(filled, home)
        with masters.Master(home) as master:
            figures = asyncio.run(_measure(home, master, num_nodes, options))
    print(f"{num_nodes} nodes of {options.slots} slots: {json.dumps(figures)}", flush=True)
    return figures


def fill(home: pathlib.Path, num_trials: int) -> pathlib.Path:
    """Writes ended trials into the store of a home, and returns it."""
    home.mkdir(mode=0o700)
    store = stores.open_store(home / "quintain.db")
    if num_trials:
        made_search.write_search(store, num_trials)
    store.close()
    return home


async def _measure(
    home: pathlib.Path, master: masters.Master, num_nodes: int, options: argparse.Namespace
) -> dict[str, float]:
    num_slots, pid = num_nodes * options.slots, master.pid
    token = token_files.load(home / "agent.token")
    secs = num_slots / options.rate
    pretended = cluster.Cluster(master.url, token, secs=secs, draw=random.Random(1))
    await pretended.join(num_nodes, options.slots)
    asking = connect(home)
    max_trials = 2 * max(options.nodes, options.few_nodes) * options.slots + 10_000
    config = {**CONFIG, "searcher": {**CONFIG["searcher"], "max_trials": max_trials}}
    body = {"config_text": json.dumps(config)}
    await asyncio.to_thread(asking.request, "POST", "/api/v1/experiments", body=body)
    begin = time.monotonic()
    while pretended.num_trained < 0.99 * num_slots:
        check(pretended)
        await asyncio.sleep(0.1)
    filled_secs = time.monotonic() - begin
    await asyncio.sleep(SETTLE_SECS)
    pretended.pauses.clear()
    running, memory = pretended.num_running, read_memory(pid)
    rate, unasked = await _observe(pretended, pid, asyncio.sleep(options.secs))
    result = {"trials running": float(running), "trials that end in a second": rate}
    result[PER_TRIAL] = unasked
    pauses = [1000 * each for each in pretended.pauses] or [0.0]
    answers: dict[str, list[float]] = {path: [] for path in PATHS}
    _, asked = await _observe(pretended, pid, _ask(asking, answers, options.secs))
    result[f"{PER_TRIAL}, with the questions below"] = asked
    note(result, "from a free slot to the next start, ms", pauses)
    result["memory, MiB"] = memory
    for path, times in answers.items():
        note(result, f"GET {path.removeprefix('/api/v1')}, ms", times)
    answers = {WHOLE_PATH: []}
    await _ask(asking, answers, WHOLE_SECS)
    result[f"all slots (GET {WHOLE_PATH.removeprefix('/api/v1')}), ms"] = statistics.median(
        answers[WHOLE_PATH]
    )
    result["until all slots train, from an empty cluster, s"] = filled_secs
    result |= await _restart(home, master, pretended, num_nodes)
    check(pretended)
    await pretended.leave()
    return result


async def _restart(
    home: pathlib.Path, master: masters.Master, pretended: cluster.Cluster, num_nodes: int
) -> dict[str, float]:
    """Kills the master while all trials run, and watches the next one take them over."""
    repeated, unwanted = pretended.num_repeated, pretended.num_unwanted
    sessions, begin = pretended.num_sessions, time.monotonic()
    master.kill()
    await asyncio.to_thread(master.start)
    asking = connect(home)
    await asyncio.to_thread(asking.request, "GET", "/api/v1/master/summary")
    answered_secs = time.monotonic() - begin
    while pretended.num_sessions < sessions + num_nodes:
        await asyncio.sleep(0.05)
    result = {
        "the master killed: until the next one answers, s": answered_secs,
        "until all machines are there again, s": time.monotonic() - begin,
    }
    await asyncio.sleep(AFTERWARDS_SECS)
    result["trials that ran twice"] = float(pretended.num_repeated - repeated)
    result["processes that were given up"] = float(pretended.num_unwanted - unwanted)
    return result


def check(pretended: cluster.Cluster) -> None:
    """Ends the benchmark if the master has refused what a process said."""
    if pretended.refusal:
        raise SystemExit(pretended.refusal)


def connect(home: pathlib.Path) -> connection.Connection:
    """Returns a connection of a user to the master of a home."""
    found = master_file.read(home)
    assert found is not None, "A master writes this before it answers."
    return connection.Connection(found.address)


def note(result: dict[str, float], name: str, values: list[float]) -> None:
    """Notes the median, and what 95 % do not exceed."""
    result[name], result[name + HIGH] = statistics.median(values), find_high(values)


async def _observe(
    pretended: cluster.Cluster, pid: int, doing: Awaitable[None]
) -> tuple[float, float]:
    """Returns trials a second, and ms of the processor for each of them, meanwhile."""
    ended, cpu, begin = pretended.num_ended, read_cpu(pid), time.monotonic()
    await doing
    secs, used = time.monotonic() - begin, read_cpu(pid) - cpu
    ended = pretended.num_ended - ended
    return ended / secs, 1000 * used / max(ended, 1)


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
