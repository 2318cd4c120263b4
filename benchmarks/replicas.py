"""Times `mirrored` on two virtual CPUs beside one device, for the same global batch.

python benchmarks/replicas.py [ROUNDS] [STEPS]
"""

import os
import statistics
import sys
import tempfile
import time

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import keras
import tensorflow as tf

import quintain.nlp.experiments  # noqa: F401 - registers the experiments of the package
from quintain.core import base_trainer, exp_factory, task_factory
from quintain.garden.core import train_utils

EXPERIMENT = "translation/local"


def build_trainer(strategy: tf.distribute.Strategy, directory: str) -> base_trainer.Trainer:
    """Builds the trainer of an experiment under a strategy."""
    keras.utils.set_random_seed(0)
    params = exp_factory.get_exp_config(EXPERIMENT)
    with strategy.scope():
        task = task_factory.get_task(params.task, logging_dir=directory)
        return train_utils.create_trainer(params, task, train=True, evaluate=False)


def main() -> None:
    """Prints the medians of both and of their ratio."""
    cpu = tf.config.list_physical_devices("CPU")[0]
    tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 2)
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 9
    steps = tf.constant(int(sys.argv[2]) if len(sys.argv) > 2 else 20)
    directory = tempfile.mkdtemp()
    one = build_trainer(tf.distribute.OneDeviceStrategy("/cpu:0"), directory)
    two = build_trainer(tf.distribute.MirroredStrategy(["/cpu:0", "/cpu:1"]), directory)
    rates: dict[base_trainer.Trainer, list[float]] = {one: [], two: []}
    secs: dict[base_trainer.Trainer, list[float]] = {one: [], two: []}
    for trainer in (one, two):
        trainer.train(steps)
    for _ in range(rounds):
        for trainer in (one, two):
            start = time.perf_counter()
            logs = trainer.train(steps) or {}
            secs[trainer].append((time.perf_counter() - start) / int(steps))
            rates[trainer].append(float(logs["tokens_per_second"]))
    for name, trainer in (("one device", one), ("two virtual CPUs", two)):
        step_ms = statistics.median(secs[trainer]) * 1000
        rate = statistics.median(rates[trainer])
        print(f"{name:<18} {step_ms:8.1f} ms a step {rate:10,.0f} tokens/s")
    ratios = [b / a for a, b in zip(rates[one], rates[two], strict=True)]
    print(f"{'ratio of tokens/s':<18} {statistics.median(ratios):8.3f}")


if __name__ == "__main__":
    main()
