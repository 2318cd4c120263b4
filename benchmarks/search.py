"""Times a search of 64 real trials beside Ray Tune and Optuna, on the same slots.

python benchmarks/search.py [--trials=64] [--slots=2] [--rounds=3] [--peers=quintain,ray,optuna]

All three train the network of `benchmarks/digits_search/digits.py` under successive halving with
the same rungs. The whole command is timed, from its start to its end. The peers are installed into
an environment of their own in the user's cache directory.
"""

import argparse
import contextlib
import json
import os
import pathlib
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from typing import Any

import peer_environments

HERE = pathlib.Path(__file__).parent / "digits_search"


class SlotWatch(threading.Thread):
    """Looks into the store of a search, again and again, at how many slots are held."""

    def __init__(self, home: str, num_slots: int) -> None:
        """Stores what to watch."""
        super().__init__(daemon=True)
        self._path = pathlib.Path(home) / "quintain.db"
        self._num_slots = num_slots
        self._samples: list[int] = []
        self._end = threading.Event()

    def run(self) -> None:
        """Takes a sample every 50 ms, as long as there are trials for all slots."""
        while not self._end.wait(0.05):
            with contextlib.suppress(sqlite3.Error):
                connection = sqlite3.connect(f"file:{self._path}?mode=ro", uri=True)
                (running,) = connection.execute("SELECT count(*) FROM runs").fetchone()
                (waiting,) = connection.execute(
                    "SELECT count(*) FROM trials WHERE state = 'ACTIVE'"
                ).fetchone()
                connection.close()
                if (running or self._samples) and waiting >= self._num_slots:
                    self._samples.append(min(running, self._num_slots))

    def stop(self) -> float:
        """Returns the share of the slots' time that they were held."""
        self._end.set()
        self.join()
        return sum(self._samples) / (self._num_slots * max(len(self._samples), 1))


def run_quintain(num_trials: int, num_slots: int) -> dict[str, Any]:
    """Searches with one command, and a home directory of its own."""
    with tempfile.TemporaryDirectory() as home:
        environment = {**os.environ, "QUINTAIN_HOME": home}
        command = [sys.executable, "-m", "quintain.cli.main", "experiment", "create"]
        command += [str(HERE / "asha.yaml"), str(HERE), f"--slots={num_slots}", "--json"]
        command += ["--set", f"searcher.max_trials={num_trials}"]
        watch = SlotWatch(home, num_slots)
        watch.start()
        start = time.perf_counter()
        subprocess.run(command, env=environment, check=True, stdout=subprocess.DEVNULL)
        secs = time.perf_counter() - start
        busy = watch.stop()
        listing = [sys.executable, "-m", "quintain.cli.main", "experiment", "list-trials", "1"]
        done = subprocess.run(
            [*listing, "--json"], env=environment, check=True, capture_output=True, text=True
        )
    trials = json.loads(done.stdout)
    print(f"slots held {100 * busy:.1f} % of the time in which there were trials for all of them")
    return {
        "secs": secs,
        "trials": len(trials),
        "batches": sum(trial["total_batches"] for trial in trials),
        "best": min(trial["best_metric"] for trial in trials),
    }


def run_peer(name: str, num_trials: int, num_slots: int) -> dict[str, Any]:
    """Searches with a peer."""
    python = peer_environments.find_python("search-peers")
    command = [python, HERE / "peers.py", name, str(num_trials), str(num_slots)]
    start = time.perf_counter()
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    secs = time.perf_counter() - start
    line = next(line for line in reversed(done.stdout.splitlines()) if line.startswith("{"))
    return {**json.loads(line), "secs": secs}


def main() -> None:
    """Prints the medians and the ratios to Quintain."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--trials", type=int, default=64)
    parser.add_argument("--slots", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--peers", default="quintain,ray,optuna")
    options = parser.parse_args()
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    # Otherwise Ray leaves a token in the home directory, which other clusters then ask for.
    os.environ.setdefault("RAY_AUTH_MODE", "disabled")
    secs: dict[str, list[float]] = {name: [] for name in options.peers.split(",")}
    for _ in range(options.rounds):
        for name, measured in secs.items():
            run = run_quintain if name == "quintain" else None
            result = (
                run(options.trials, options.slots)
                if run
                else run_peer(name, options.trials, options.slots)
            )
            measured.append(result["secs"])
            print(
                f"{name:9} {result['secs']:7.1f} s  {result['trials']} trials  "
                f"{result['batches']} batches  best loss {result['best']:.4f}",
                flush=True,
            )
    ours = statistics.median(secs["quintain"])
    for name, measured in secs.items():
        median = statistics.median(measured)
        print(f"{name:9} median {median:7.1f} s   ratio {median / ours:5.2f}")


if __name__ == "__main__":
    main()
