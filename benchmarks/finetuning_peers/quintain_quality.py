"""Trains an experiment of a bundled corpus for a time, and saves the logits of its validation."""

import json
import pathlib
import sys
import tempfile
from typing import Any

from quintain.process import start_up

# Before Keras, as every command of ours: parts of TensorFlow that nothing asks for stay away.
start_up.prepare()

# isort: split
import keras
import numpy as np
import quality_budget
import tensorflow as tf

from quintain.core import exp_factory, task_factory
from quintain.distribute import distribution, runtime_environment
from quintain.garden.core import train_utils
from quintain.nlp.experiments import fine_tuning  # noqa: F401 - registers the experiments
from quintain.optimization.schedules import learning_rate_scale

STEPS_PER_LOOP = 10


def run(task: dict[str, Any]) -> None:
    """Trains; the learning rate keeps its shape, over the processor time."""
    described = json.loads(pathlib.Path(task["data"] + ".json").read_text())
    params = exp_factory.get_exp_config(task["experiment"])
    rate = {"type": "constant", "constant": {"learning_rate": described["rate"]}}
    changed = {"learning_rate": rate, "warmup": {"type": None}}
    params.override({"trainer": {"optimizer_config": changed}, "runtime": {"seed": task["seed"]}})
    params.override(task["overrides"])
    runtime_environment.prepare(params.runtime)
    keras.utils.set_random_seed(task["seed"])
    strategy = distribution.build_strategy(params.runtime)
    with distribution.precision(params.runtime), strategy.scope():
        built = task_factory.get_task(params.task, logging_dir=tempfile.mkdtemp())
        trainer = train_utils.create_trainer(params, built, train=True, evaluate=False)
    learning_rate_scale.prepare(trainer.optimizer)

    data = np.load(task["data"] + ".npz")
    names = ("input_word_ids", "input_mask", "input_type_ids")
    length = params.task.validation_data.seq_length
    inputs = {name: data[f"validation_{name}"][:, :length] for name in names}

    @tf.function
    def infer(batch: dict[str, tf.Tensor]) -> tf.Tensor:
        found = built.inference_step(batch, trainer.model)
        return found["logits"] if isinstance(found, dict) else tf.stack(found, axis=-1)

    def predict() -> np.ndarray:
        batches = tf.data.Dataset.from_tensor_slices(inputs).batch(100)
        return np.concatenate([infer(batch).numpy() for batch in batches])

    trainer.train(tf.constant(1))
    budget, factor, steps = quality_budget.Budget(task, described["warmup"]), 1.0, 1
    while not budget.is_over:
        previous, factor = factor, budget.factor
        learning_rate_scale.scale(trainer.optimizer, factor=factor, previous=previous)
        trainer.train(tf.constant(STEPS_PER_LOOP))
        steps += STEPS_PER_LOOP
        budget.maybe_evaluate(steps, predict)


if __name__ == "__main__":
    # Threads between operations stay, of which one reads the input; their time counts too.
    tf.config.threading.set_intra_op_parallelism_threads(1)
    run(json.loads(sys.argv[1]))
