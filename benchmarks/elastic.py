"""Times `runtime.elastic` on one worker beside the plain step, in turns: A B A B ...

python benchmarks/elastic.py [EXPERIMENT] [ROUNDS] [STEPS] [SHARDS]
"""

import os
import statistics
import sys
import tempfile
import time

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import keras
import tensorflow as tf

import quintain.registered_experiments  # noqa: F401 - registers the experiments of the package
from quintain.core import base_trainer, exp_factory, task_factory
from quintain.garden.core import train_utils


def build_trainer(
    experiment: str, directory: str, *, is_elastic: bool, shards: int
) -> base_trainer.Trainer:
    """Builds the trainer of an experiment."""
    keras.utils.set_random_seed(0)
    params = exp_factory.get_exp_config(experiment)
    if experiment == "translation/small":
        path = "bundled:numbers_and_dates/train"
        data = {"input_path": path, "src_lang": "en", "tgt_lang": "de"}
        params.override({"task": {"train_data": data, "max_vocab_pairs": 6_000}})
    params.override({"runtime": {"elastic": is_elastic, "elastic_shards": shards}})
    with tf.distribute.OneDeviceStrategy("/cpu:0").scope():
        task = task_factory.get_task(params.task, logging_dir=directory)
        return train_utils.create_trainer(params, task, train=True, evaluate=False)


def main() -> None:
    """Prints the medians of both, and of their ratios."""
    experiment, *numbers = [
        *sys.argv[1:],
        *("translation/local", "7", "10", "8")[len(sys.argv) - 1 :],
    ]
    rounds, steps, shards = map(int, numbers)
    directory = tempfile.mkdtemp()
    kinds = ("plain", "elastic")
    trainers = {
        kind: build_trainer(experiment, directory, is_elastic=kind == "elastic", shards=shards)
        for kind in kinds
    }
    found: dict[str, dict[str, list[float]]] = {kind: {"wall": [], "cpu": []} for kind in kinds}
    for kind in kinds:
        trainers[kind].train(tf.constant(steps))
    for _ in range(rounds):
        for kind in kinds:
            wall, cpu = time.perf_counter(), time.process_time()
            logs = trainers[kind].train(tf.constant(steps)) or {}
            secs = time.perf_counter() - wall
            # Batches differ in their tokens: by length, they are filled more or less.
            tokens = float(logs["tokens_per_second"]) * secs
            found[kind]["wall"].append(secs / tokens * 1e6)
            found[kind]["cpu"].append((time.process_time() - cpu) / tokens * 1e6)
    for kind in kinds:
        wall, cpu = (statistics.median(found[kind][clock]) for clock in ("wall", "cpu"))
        print(f"{kind:<8} {wall:8.1f} us a token, {cpu:8.1f} us of processor time")
    for clock in ("wall", "cpu"):
        ratios = [
            b / a for a, b in zip(found["plain"][clock], found["elastic"][clock], strict=True)
        ]
        print(f"ratio of {clock} time {statistics.median(ratios):.3f}")


if __name__ == "__main__":
    main()
