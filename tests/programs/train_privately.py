"""Trains with differential privacy on two replicas.

Two virtual CPUs can only be made before TensorFlow starts.
"""

import json
import sys

import keras
import numpy as np
import tensorflow as tf

cpu = tf.config.list_physical_devices("CPU")[0]
tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 2)

from quintain.core import base_task, input_reader, trainer_factory
from quintain.core import config_definitions as cfg

path = sys.argv[1]
with tf.io.TFRecordWriter(path) as writer:
    for row in np.random.default_rng(1).normal(size=[101, 3]).astype(np.float32):
        writer.write(row.tobytes())


class Line(base_task.Task):
    def build_model(self):
        keras.utils.set_random_seed(3)
        model = keras.Sequential(
            [keras.layers.Dense(4), keras.layers.Dropout(0.1), keras.layers.Dense(1)]
        )
        model.build((None, 3))
        return model

    def build_inputs(self, params, input_context=None):
        reader = input_reader.InputReader(
            params,
            decoder_fn=lambda record: tf.ensure_shape(tf.io.decode_raw(record, tf.float32), [3]),
            parser_fn=lambda row: (row, tf.reduce_sum(row, keepdims=True)),
        )
        return reader.read(input_context)

    def build_losses(self, labels, model_outputs, aux_losses=None):
        return tf.reduce_mean(tf.square(labels - model_outputs))


def train(strategy, is_poisson):
    params = cfg.ExperimentConfig(
        task=cfg.TaskConfig(
            train_data=cfg.DataConfig(input_path=path, is_training=True, global_batch_size=10),
            differential_privacy_config=cfg.DifferentialPrivacyConfig(
                clipping_norm=1.0,
                noise_multiplier=8.0,
                num_examples=101,
                poisson_sampling=is_poisson,
                noise_seed=5,
            ),
        ),
        trainer=cfg.TrainerConfig(
            train_steps=6,
            steps_per_loop=3,
            optimizer_config={
                "optimizer": {"type": "sgd"},
                "learning_rate": {"type": "constant", "constant": {"learning_rate": 0.1}},
            },
        ),
    )
    with strategy.scope():
        task = Line(params.task)
        trainer = trainer_factory.create_trainer(params, task, train=True, evaluate=False)
        before = [variable.numpy() for variable in trainer.model.trainable_variables]
        logs = [trainer.train(tf.constant(3)) for _ in range(2)]
    replicas = [
        [copy.numpy() for copy in strategy.experimental_local_results(variable.value)]
        for variable in trainer.model.trainable_variables
    ]
    change = max(
        np.abs(copies[0] - old).max() for copies, old in zip(replicas, before, strict=True)
    )
    distance = max(np.abs(copies[0] - copies[-1]).max() for copies in replicas)
    return [float(change), float(distance), float(logs[-1]["epsilon"])]


strategy = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])
print(json.dumps([train(strategy, is_poisson) for is_poisson in (False, True)]))
