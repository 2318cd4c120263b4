"""Times training with and without saving checkpoints in the background.

python benchmarks/checkpoints.py [ROUNDS] [STEPS]

Each round trains the same number of steps twice, once with one checkpoint in it. What a checkpoint
costs is set against the training time between two checkpoints at the default interval.
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
from quintain.checkpoints import checkpoints
from quintain.core import base_trainer, exp_factory, task_factory
from quintain.distribute import distribution
from quintain.garden.core import train_utils
from quintain.settings import config_definitions as cfg

EXPERIMENT = "translation/local"


def build_trainer(params: cfg.ExperimentConfig, directory: str) -> base_trainer.Trainer:
    """Builds the trainer of an experiment, as `run_experiment` does."""
    keras.utils.set_random_seed(0)
    strategy = distribution.build_strategy(params.runtime)
    with strategy.scope():
        task = task_factory.get_task(params.task, logging_dir=directory)
        return train_utils.create_trainer(params, task, train=True, evaluate=False)


def main() -> None:
    """Prints the medians of both, and the share of a checkpoint in the training time."""
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 9
    steps = int(sys.argv[2]) if len(sys.argv) > 2 else 40
    interval = cfg.TrainerConfig().checkpoint_interval
    params = exp_factory.get_exp_config(EXPERIMENT)
    with tempfile.TemporaryDirectory() as directory:
        trainer = build_trainer(params, directory)
        manager = checkpoints.CheckpointManager(
            trainer.checkpoint, directory, step_counter=trainer.global_step
        )
        trainer.train(tf.constant(steps))
        manager.save()
        manager.sync()

        calls, with_one, without = [], [], []
        for _ in range(rounds):
            for saves, secs in ((True, with_one), (False, without)):
                start = time.perf_counter()
                if saves:
                    manager.save()
                    calls.append(time.perf_counter() - start)
                trainer.train(tf.constant(steps))
                secs.append(time.perf_counter() - start)
            manager.sync()
    cost = statistics.median(a - b for a, b in zip(with_one, without, strict=True))
    step_secs = statistics.median(without) / steps
    print(f"one step                     {step_secs * 1000:8.2f} ms")
    print(f"call of save                 {statistics.median(calls) * 1000:8.2f} ms")
    print(f"a checkpoint, in all         {cost * 1000:8.2f} ms (with the writing beside it)")
    print(f"share at {interval} steps        {cost / (interval * step_secs):8.3%} (bar: 1 %)")


if __name__ == "__main__":
    main()
