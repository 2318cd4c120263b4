"""Load on `quintain serve-model`: sentences a second and the 95th percentile of answers.

python benchmarks/serving_load.py MODEL_DIR [--secs=10] [--rounds=2] [--connections=1,2,4,8,16,32]

MODEL_DIR is a run of translation; where it holds none, `translation/local` is trained for 400
steps. Each connection sends one sentence, waits for its answer, and sends the next. Continuous
batching is compared with one sentence at a time (`--max-batch-size=1`), A B A B.
"""

import argparse
import http.client
import itertools
import json
import os
import random
import re
import statistics
import subprocess
import sys
import threading
import time

import startup

MONTHS = ("January", "March", "May", "July", "August", "October", "December")
DAYS = ("first", "third", "seventh", "twelfth", "twentieth", "twenty-second")
SERVERS = {"continuous": 64, "one by one": 1}


def train(model_dir: str) -> None:
    """Trains `translation/local` unless there is a run."""
    if not os.path.exists(os.path.join(model_dir, "params.yaml")):
        settings = ["--set=trainer.train_steps=400", "--set=trainer.validation_interval=400"]
        command = ["train", "--experiment=translation/local", "--quiet"]
        command = [startup.quintain(), *command, f"--model_dir={model_dir}", *settings]
        subprocess.run(command, check=True)


def load(port: int, num_connections: int, secs: float) -> list[float]:
    """Returns how long each answer took that was asked for within `secs`."""
    latencies: list[float] = []
    end = time.perf_counter() + secs

    def ask(seed: int) -> None:
        choose = random.Random(seed).choice
        connection = http.client.HTTPConnection("127.0.0.1", port)
        while (start := time.perf_counter()) < end:
            text = f"the {choose(DAYS)} of {choose(MONTHS)}"
            connection.request("POST", "/translate", json.dumps({"texts": [text]}))
            answer = connection.getresponse()
            body = answer.read()
            assert answer.status == 200, body
            latencies.append(time.perf_counter() - start)
        connection.close()

    threads = [threading.Thread(target=ask, args=(seed,)) for seed in range(num_connections)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return latencies


def serve(model_dir: str, batch_size: int, numbers: list[int], secs: float) -> list[dict]:
    """Returns sentences a second, 95th percentile and processor time for each number."""
    command = [startup.quintain(), "serve-model", f"--model-dir={model_dir}", "--port=0"]
    command.append(f"--max-batch-size={batch_size}")
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as server:
        try:
            assert server.stdout is not None, "it was asked for"
            found = (re.search(r"http://[^ ]*?:(\d+)", line) for line in server.stdout)
            port = int(next(match[1] for match in found if match))
            threading.Thread(target=server.stdout.read, daemon=True).start()
            load(port, 2, 2.0)  # The first ones compile.
            results = []
            for number in numbers:
                before = read_processor_secs(server.pid)
                latencies = load(port, number, secs)
                spent = read_processor_secs(server.pid) - before
                results.append(
                    {
                        "rate": len(latencies) / secs,
                        "p95": statistics.quantiles(latencies, n=20)[-1],
                        "spent": spent / len(latencies),
                    }
                )
        finally:
            server.terminate()
    return results


def read_processor_secs(pid: int) -> float:
    """Returns the processor time that a process has used (Linux)."""
    with open(f"/proc/{pid}/stat", encoding="ascii") as stat:
        fields = stat.read().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def main() -> None:
    """Prints the medians of the rounds."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model_dir")
    parser.add_argument("--secs", type=float, default=10.0)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--connections", default="1,2,4,8,16,32")
    flags = parser.parse_args()
    os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
    train(flags.model_dir)
    numbers = [int(number) for number in flags.connections.split(",")]
    rounds: dict[str, list[list[dict]]] = {name: [] for name in SERVERS}
    for _, (name, size) in itertools.product(range(flags.rounds), SERVERS.items()):
        rounds[name].append(serve(flags.model_dir, size, numbers, flags.secs))
    print(f"{startup.name_processor()}; medians of {flags.rounds} rounds")
    print("server       connections  sentences/s   p95, ms  processor, ms")
    for name, found in rounds.items():
        for number, *points in zip(numbers, *found, strict=True):
            rate, p95, spent = (
                statistics.median(point[key] for point in points)
                for key in ("rate", "p95", "spent")
            )
            print(f"{name:12}{number:12}{rate:13.1f}{p95 * 1e3:10.1f}{spent * 1e3:15.2f}")


if __name__ == "__main__":
    sys.exit(main())
