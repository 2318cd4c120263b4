"""Registers `test/own_pipeline`: a task with an everyday pipeline and random states of its own.

    KILL_AT_STEP=23 quintain train --import=own_pipeline --experiment=test/own_pipeline ...

with this directory in `PYTHONPATH`; the process kills itself in the middle of that step.
"""

import dataclasses
import os
import pathlib
import signal

import keras
import tensorflow as tf

from quintain.core import base_task, exp_factory, task_factory
from quintain.settings import config_definitions as cfg


@dataclasses.dataclass
class OwnConfig(cfg.TaskConfig):
    data_dir: str = ""
    train_data: cfg.DataConfig = cfg.DataConfig(is_training=True, global_batch_size=4)
    validation_data: cfg.DataConfig = cfg.DataConfig(is_training=False, global_batch_size=4)


class Noise:
    """A plain object that holds what a checkpoint must find."""

    def __init__(self):
        self.generators = [tf.random.Generator.from_seed(1)]
        self.layers = {"dropout": keras.layers.GaussianNoise(0.1, seed=4)}


@task_factory.register_task_cls(OwnConfig)
class OwnTask(base_task.Task):
    """Learns to double a number, with noise from everywhere."""

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.noise = Noise()
        self.seed = keras.random.SeedGenerator(5)
        self.seen = [tf.Variable(0.0, trainable=False)]

    def build_model(self):
        # Built from the first batch.
        return keras.Sequential([keras.layers.Dense(4), keras.layers.Dense(1)])

    def build_inputs(self, params, input_context=None):
        pattern = str(pathlib.Path(self.task_config.data_dir))
        escaped = "".join(f"[{letter}]" if letter in "[*?" else letter for letter in pattern)
        names = tf.data.Dataset.list_files(f"{escaped}/*.txt", shuffle=False)
        if params.is_training:
            names = names.shuffle(9)
        data = names.interleave(tf.data.TextLineDataset, cycle_length=2)
        data = data.map(lambda line: tf.strings.to_number([line]))
        if params.is_training:
            data = data.shuffle(6)
        data = data.map(lambda number: (number, 2 * number)).batch(params.global_batch_size)
        return data.repeat() if params.is_training else data

    def build_losses(self, labels, model_outputs, aux_losses=None):
        return tf.reduce_mean(tf.square(labels - model_outputs))

    def train_step(self, inputs, model, optimizer, metrics=None):
        if kill_at := os.environ.get("KILL_AT_STEP"):
            tf.py_function(lambda step: _kill(step, int(kill_at)), [optimizer.iterations.value], [])
        features, labels = inputs
        features += self.noise.generators[0].normal(tf.shape(features))
        features += keras.random.normal(tf.shape(features), seed=self.seed)
        features = self.noise.layers["dropout"](features, training=True)
        self.seen[0].assign_add(tf.reduce_sum(features))
        return super().train_step((features, labels), model, optimizer, metrics)


def _kill(step, kill_at):
    if int(step) == kill_at:
        os.kill(os.getpid(), signal.SIGKILL)


@exp_factory.register_config_factory("test/own_pipeline")
def own_pipeline():
    return cfg.ExperimentConfig(
        task=OwnConfig(),
        trainer=cfg.TrainerConfig(
            optimizer_config={
                "optimizer": {"type": "adam"},
                "learning_rate": {"type": "constant", "constant": {"learning_rate": 0.01}},
            },
            train_steps=34,
            steps_per_loop=7,
            summary_interval=7,
            checkpoint_interval=7,
            validation_interval=17,
            validation_steps=-1,
        ),
        runtime=cfg.RuntimeConfig(distribution_strategy="one_device"),
    )
