"""Times the trainer's loop beside a bare `tf.function` loop over the same step and the same data.

python benchmarks/training_loop.py [ROUNDS] [STEPS]
"""

import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import keras
import tensorflow as tf

import quintain.nlp.experiments  # noqa: F401 - registers the experiments of the package
from quintain.core import base_task, base_trainer, exp_factory, task_factory
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


def build_bare_loop(
    task: base_task.Task, params: cfg.ExperimentConfig
) -> Callable[[tf.Tensor], None]:
    """Writes by hand what a user would: a loop over the task's step, without anything around it."""
    keras.utils.set_random_seed(0)
    model = task.build_model()
    optimizer = task.create_optimizer(params.trainer.optimizer_config, params.runtime)
    optimizer.build(model.trainable_variables)
    metrics = task.build_metrics(training=True)
    iterator = iter(task.build_inputs(params.task.train_data.replace(seed=0)))

    @tf.function
    def run(num_steps: tf.Tensor) -> None:
        for _ in tf.range(num_steps):
            task.train_step(next(iterator), model=model, optimizer=optimizer, metrics=metrics)

    return run


def main() -> None:
    """Prints the medians of both and of their ratio."""
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 9
    steps = tf.constant(int(sys.argv[2]) if len(sys.argv) > 2 else 50)
    params = exp_factory.get_exp_config(EXPERIMENT)
    trainer = build_trainer(params, tempfile.mkdtemp())
    bare = build_bare_loop(trainer.task, params)
    trainer.train(steps)
    bare(steps)

    ours, theirs = [], []
    for _ in range(rounds):
        for run, secs in ((trainer.train, ours), (bare, theirs)):
            start = time.perf_counter()
            run(steps)
            secs.append((time.perf_counter() - start) / int(steps))
    ratios = [a / b for a, b in zip(ours, theirs, strict=True)]
    print(f"Trainer loop   {statistics.median(ours) * 1000:7.2f} ms a step")
    print(f"bare loop      {statistics.median(theirs) * 1000:7.2f} ms a step")
    print(f"ratio          {statistics.median(ratios):7.3f} (bar: 1.02)")


if __name__ == "__main__":
    main()
