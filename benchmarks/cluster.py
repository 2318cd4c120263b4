"""Times a search of 64 real trials on a Ray cluster beside Ray Tune on the same cluster.

python benchmarks/cluster.py [--trials=64] [--nodes=2] [--rounds=3]

The cluster has so many nodes of one CPU on this machine. Both train the network of
`benchmarks/digits_search/digits.py` under successive halving with the same rungs, in turns. Ray
Tune's command is timed from its start to its end; ours from the start of a master without agents
to the end of the search, and from the command that creates the experiment. The processor's time is
that of the whole machine: let nothing else run. Then it prints how long it takes from the master's
decision until a trial on a node of the cluster asks for its work: the first one of a node, which
waits for what it imports, and later ones.
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
import time
from typing import Any

ROOT = pathlib.Path(__file__).parents[1]
SEARCH = ROOT / "benchmarks" / "digits_search"


class Cluster:
    """A Ray cluster of this machine."""

    def __init__(self, num_nodes: int, directory: str) -> None:
        """Starts it."""
        self.environment = {**os.environ, "RAY_TMPDIR": directory, "RAY_AUTH_MODE": "disabled"}
        self._process = subprocess.Popen(
            [sys.executable, str(ROOT / "tests" / "programs" / "ray_cluster.py")],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=self.environment,
            text=True,
            start_new_session=True,
        )
        self.address = self._read()["address"]
        for _ in range(num_nodes):
            self._write({"do": "add", "cpus": 1})
            self._read()

    def close(self) -> None:
        """Ends it."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait()

    def _write(self, content: dict[str, Any]) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(content) + "\n")
        self._process.stdin.flush()

    def _read(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        found: dict[str, Any] = json.loads(self._process.stdout.readline())
        return found


@contextlib.contextmanager
def run_master(cluster: Cluster, home: str) -> Any:
    """Runs a master on a cluster, and gives what calls commands of its home."""
    environment = {**cluster.environment, "QUINTAIN_HOME": home}
    command = [sys.executable, "-m", "quintain.cli.main"]

    def call(*arguments: str) -> str:
        done = subprocess.run(
            [*command, *arguments], env=environment, check=True, capture_output=True, text=True
        )
        return done.stdout

    options = ["--launcher=ray", f"--ray_address={cluster.address}", f"--ray_directory={home}/a"]
    master = subprocess.Popen(
        [*command, "master", "start", *options], env=environment, stderr=subprocess.DEVNULL
    )
    try:
        while not (pathlib.Path(home) / "master.json").exists():
            if master.poll() is not None:
                raise SystemExit("The master did not start.")
            time.sleep(0.01)
        yield call
    finally:
        master.terminate()
        master.wait()


def search(cluster: Cluster, num_trials: int) -> tuple[float, float]:
    """Returns the seconds of our search from the start of a master, and from the command."""
    with tempfile.TemporaryDirectory() as home:
        start = time.perf_counter()
        with run_master(cluster, home) as call:
            begin = time.perf_counter()
            options = ["--no_check", "--json", "--set", f"searcher.max_trials={num_trials}"]
            call("experiment", "create", str(SEARCH / "asha.yaml"), str(SEARCH), *options)
            end = time.perf_counter()
            trials = json.loads(call("experiment", "list-trials", "1", "--json"))
        assert [trial["state"] for trial in trials] == num_trials * ["COMPLETED"]
    return end - start, end - begin


def search_by_tune(cluster: Cluster, num_trials: int, num_nodes: int) -> float:
    """Returns the seconds of Ray Tune's search."""
    start = time.perf_counter()
    command = [sys.executable, str(SEARCH / "peers.py"), "ray", str(num_trials), str(num_nodes)]
    subprocess.run(
        [*command, cluster.address], env=cluster.environment, check=True, capture_output=True
    )
    return time.perf_counter() - start


def time_starts(cluster: Cluster, num_trials: int) -> list[float]:
    """Returns the seconds from the decision to start a trial until it asks for its work."""
    with tempfile.TemporaryDirectory() as home, run_master(cluster, home) as call:
        call(
            *("experiment", "create", str(SEARCH / "asha.yaml"), str(SEARCH), "--no_check"),
            *("--detach", "--set", f"searcher.max_trials={num_trials}"),
        )
        path = pathlib.Path(home) / "quintain.db"
        connection = sqlite3.connect(f"file:{path}?mode=ro", uri=True, isolation_level=None)
        secs: dict[str, float] = {}
        with contextlib.closing(connection):
            while len(secs) < num_trials:
                time.sleep(0.002)
                now = time.time()
                for name, began in connection.execute(
                    "SELECT launch_id, start_time FROM runs WHERE identity IS NOT NULL"
                ):
                    secs.setdefault(name, now - began)
        return list(secs.values())


def read_busy_secs() -> float:
    """Returns the seconds that the processors of this machine have worked."""
    line = pathlib.Path("/proc/stat").read_text(encoding="utf-8").split("\n", 1)[0]
    user, nice, system, _, _, irq, softirq = map(int, line.split()[1:8])
    return (user + nice + system + irq + softirq) / os.sysconf("SC_CLK_TCK")


def main() -> None:
    """Prints each round, the medians, and their ratios."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--trials", type=int, default=64)
    parser.add_argument("--nodes", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    cold, warm, by_tune, ratios = [], [], [], []
    with tempfile.TemporaryDirectory(prefix="ray_", ignore_cleanup_errors=True) as directory:
        cluster = Cluster(options.nodes, directory)
        try:
            for _ in range(options.rounds):
                busy = [read_busy_secs()]
                secs = search(cluster, options.trials)
                busy.append(read_busy_secs())
                theirs = search_by_tune(cluster, options.trials, options.nodes)
                busy.append(read_busy_secs())
                cold.append(secs[0])
                warm.append(secs[1])
                by_tune.append(theirs)
                ratios.append(theirs / secs[0])
                print(
                    f"ours {secs[0]:6.1f} s ({secs[1]:.1f} s with a master that runs), "
                    f"processor {busy[1] - busy[0]:6.1f} s; Ray Tune {theirs:6.1f} s, "
                    f"processor {busy[2] - busy[1]:6.1f} s; ratio {ratios[-1]:.2f}",
                    flush=True,
                )
            starts = sorted(time_starts(cluster, 10 * options.nodes))
        finally:
            cluster.close()
    ours = statistics.median(cold)
    print(
        f"median: ours {ours:.1f} s, with a master that runs {statistics.median(warm):.1f} s; "
        f"Ray Tune {statistics.median(by_tune):.1f} s; median of the ratios "
        f"{statistics.median(ratios):.2f}"
    )
    print(
        f"start of a trial on a node: first {starts[-1]:.2f} s, later ones "
        f"{statistics.median(starts[: -options.nodes]):.3f} s"
    )


if __name__ == "__main__":
    main()
