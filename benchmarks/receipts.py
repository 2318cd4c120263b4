"""Measures what receipts add to the processor time of a training.

python benchmarks/receipts.py [ROUNDS] [STEPS]

Each round trains the same number of steps and saves one checkpoint, in the order A B A B: without
and with its receipt. The cost of a receipt is set against the time of training from one checkpoint
to the next at the default interval.
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
from quintain.checkpoints import checkpoints, receipts
from quintain.core import exp_factory, task_factory
from quintain.distribute import distribution
from quintain.garden.core import train_utils
from quintain.run.proof import run_facts
from quintain.settings import config_definitions as cfg


def main() -> None:
    """Prints the median of both, and the share of a receipt in the training time."""
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 9
    steps = int(sys.argv[2]) if len(sys.argv) > 2 else 20
    params = exp_factory.get_exp_config("translation/local")
    keras.utils.set_random_seed(0)
    with tempfile.TemporaryDirectory() as directory:
        with distribution.build_strategy(params.runtime).scope():
            task = task_factory.get_task(params.task, logging_dir=directory)
            trainer = train_utils.create_trainer(params, task, train=True, evaluate=False)
        managers = {}
        for name in ("without", "with"):
            managers[name] = checkpoints.CheckpointManager(
                trainer.checkpoint,
                os.path.join(directory, name),
                step_counter=trainer.global_step,
                enable_async=False,
            )
        writer = receipts.ReceiptWriter(
            os.path.join(directory, "with"), lambda: run_facts.find(params, directory)
        )
        managers["with"].write_receipts(writer)
        trainer.train(tf.constant(steps))
        for manager in managers.values():
            manager.save()
        saving: dict[str, list[float]] = {"without": [], "with": []}
        training = []
        for _ in range(rounds):
            for name, manager in managers.items():
                start = time.process_time()
                trainer.train(tf.constant(steps))
                trained = time.process_time()
                manager.save()
                saving[name].append(time.process_time() - trained)
                training.append((trained - start) / steps)
    without, added = (statistics.median(saving[name]) for name in ("without", "with"))
    interval = cfg.TrainerConfig().checkpoint_interval
    share = (added - without) / (statistics.median(training) * interval)
    print(f"a step {statistics.median(training) * 1e3:.1f} ms of processor time")
    print(f"a checkpoint {without * 1e3:.1f} ms, with its receipt {added * 1e3:.1f} ms")
    print(f"share of receipts at {interval} steps between checkpoints: {share:.4%}")


if __name__ == "__main__":
    main()
