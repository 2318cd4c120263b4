"""Times the training step of a Transformer beside PyTorch and Keras, in float32 and bfloat16.

python benchmarks/training_step.py [--rounds=3] [--steps=20] [--precisions=bfloat16,float32]
    [--peers=quintain,torch,keras-tensorflow,keras-jax]

All train the model of `benchmarks/training_step_peers/batches.py` on the same batches with Adam,
each in a process of its own, one after the other in every round. Printed are tokens a second of
both sides, the loss on the first batch after the last step (the models start from other random
numbers), the most memory that the process held, and the ratio of ours to each peer's; and what
share of the speed of the machine's matrix products ours is. The peers are installed into
environments of their own in the user's cache directory.
"""

import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import time

import peer_environments

HERE = pathlib.Path(__file__).parent / "training_step_peers"


def run(name: str, precision: str, steps: int, folder: pathlib.Path = HERE) -> dict[str, float]:
    """Trains with one of the peers in `folder` and returns what it printed."""
    environment = dict(os.environ)
    if name == "quintain":
        command = [sys.executable, "quintain_run.py"]
    elif name.startswith("torch"):
        command = [peer_environments.find_python("torch"), "torch_run.py"]
        command += [f"--{option}" for option in name.split("-")[1:]]
    else:
        command = [peer_environments.find_python("keras"), "keras_run.py"]
        environment["KERAS_BACKEND"] = name.removeprefix("keras-")
    done = subprocess.run(
        [*command, f"--precision={precision}", f"--steps={steps}"],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise SystemExit(f"{name} failed:\n{done.stderr[-2000:]}")
    measured: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return measured


def measure_products(precision: str) -> float:
    """Returns how many operations a second the matrix products of the step could do, in 1e9."""
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    import tensorflow as tf

    dtype = tf.as_dtype(precision)
    speeds = []
    for inner, outer in ((512, 2048), (2048, 512), (512, 8000)):
        left = tf.cast(tf.random.normal([32 * 48, inner]), dtype)
        right = tf.cast(tf.random.normal([inner, outer]), dtype)
        multiply = tf.function(tf.matmul)
        multiply(left, right)
        secs = []
        for _ in range(20):
            start = time.perf_counter()
            multiply(left, right)
            secs.append(time.perf_counter() - start)
        speeds.append(2 * 32 * 48 * inner * outer / min(secs) / 1e9)
    return statistics.mean(speeds)


def count_operations() -> float:
    """Returns the operations of the matrix products with weights, for a token of both sides.

    Forward and backward pass together are three products; each multiplies and adds.
    """
    width, inner, layers, vocab = 512, 2048, 3, 8000
    encoder = layers * (4 * width * width + 2 * width * inner)
    decoder = layers * (8 * width * width + 2 * width * inner) + vocab * width
    return 3 * 2 * (encoder + decoder) / 2


def print_comparison(found: dict[str, list[dict[str, float]]]) -> dict[str, float]:
    """Prints what each peer's runs measured, and returns its median of tokens a second."""
    speeds = {
        name: statistics.median(one["tokens_per_sec"] for one in measured)
        for name, measured in found.items()
    }
    for name, measured in found.items():
        memory = statistics.median(one["mib"] for one in measured)
        ratio = speeds.get("quintain", float("nan")) / speeds[name]
        print(
            f"  {name:18} {speeds[name]:8,.0f} tokens/s  ours/theirs {ratio:5.2f}  "
            f"loss {measured[-1]['loss']:.3f}  {memory:6,.0f} MiB"
        )
    return speeds


def main() -> None:
    """Prints the medians and the ratios."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--precisions", default="bfloat16,float32")
    parser.add_argument("--peers", default="quintain,torch,keras-tensorflow,keras-jax")
    options = parser.parse_args()
    for precision in options.precisions.split(","):
        found: dict[str, list[dict[str, float]]] = {name: [] for name in options.peers.split(",")}
        for _ in range(options.rounds):
            for name, measured in found.items():
                measured.append(run(name, precision, options.steps))
                print(f"{precision} {name} {measured[-1]}", flush=True)
        speeds = print_comparison(found)
        if "quintain" in speeds:
            limit = measure_products(precision) * 1e9 / count_operations()
            share = 100 * speeds["quintain"] / limit
            print(f"  matrix products alone {limit:8,.0f} tokens/s; ours is {share:.0f} % of it")


if __name__ == "__main__":
    main()
