"""Trains with every optimizer on one replica and on two.

Two virtual CPUs can only be made before TensorFlow starts.
"""

import json

import keras
import numpy as np
import tensorflow as tf

cpu = tf.config.list_physical_devices("CPU")[0]
tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 2)

from quintain.core import base_task, base_trainer
from quintain.core import config_definitions as cfg
from quintain.optimization.configs import optimization_config

BATCH, FEATURES = 8, 3


class Line(base_task.Task):
    def build_model(self):
        keras.utils.set_random_seed(3)
        model = keras.Sequential([keras.layers.Dense(4)])
        model.build((None, FEATURES))
        return model

    def build_inputs(self, params, input_context=None):
        x = tf.random.stateless_normal([64, FEATURES], seed=(1, 2))
        y = tf.reduce_sum(x, axis=1, keepdims=True)
        data = tf.data.Dataset.from_tensor_slices((x, y)).repeat()
        replicas = input_context.num_replicas_in_sync if input_context else 1
        return data.batch(BATCH // replicas, drop_remainder=True)

    def build_losses(self, labels, model_outputs, aux_losses=None):
        return tf.reduce_mean(tf.square(labels - model_outputs))


def train(strategy, optimizer):
    config = cfg.ExperimentConfig()
    config.override(
        {
            "trainer": {
                "optimizer_config": {
                    "optimizer": optimizer,
                    "ema": {"average_decay": 0.5},
                    "gradient_accumulation_steps": 2,
                    "learning_rate": {"type": "constant", "constant": {"learning_rate": 0.01}},
                },
                "train_steps": 4,
                "steps_per_loop": 4,
                "summary_interval": 4,
            }
        }
    )
    task = Line(config.task)
    with strategy.scope():
        model = task.build_model()
        optimizer = task.create_optimizer(config.trainer.optimizer_config, config.runtime)
        trainer = base_trainer.Trainer(config, task, model, optimizer, evaluate=False)
        before = [weight.numpy() for weight in model.trainable_variables]
        trainer.train(tf.constant(4))
    assert int(trainer.global_step.numpy()) == 4, trainer.global_step
    assert int(optimizer.iterations.numpy()) == 4, optimizer.iterations
    average = optimizer.inner_optimizer
    weights = [weight.numpy() for weight in model.trainable_variables]
    averages = [weight.numpy() for weight in average.average_weights]
    return before, weights, averages


def compare(optimizer):
    _, one, one_average = train(tf.distribute.OneDeviceStrategy("/cpu:0"), optimizer)
    mirrored = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])
    before, two, two_average = train(mirrored, optimizer)
    error = max(
        np.abs(a - b).max() for a, b in zip(one + one_average, two + two_average, strict=True)
    )
    change = max(np.abs(a - b).max() for a, b in zip(before, two, strict=True))
    return [float(error), float(change)]


results = {}
for name in optimization_config.OptimizerConfig().choices():
    results[name] = compare({"type": name, name: {"global_clipnorm": 0.5}})
for limit in ("clipnorm", "clipvalue"):
    results[limit] = compare({"type": "sgd", "sgd": {limit: 0.01}})
print(json.dumps(results))
