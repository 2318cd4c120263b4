"""Evaluates the named files on two replicas, and counts.

Two virtual CPUs can only be made before TensorFlow starts.
"""

import json
import sys

import keras
import tensorflow as tf

cpu = tf.config.list_physical_devices("CPU")[0]
tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 2)

from quintain.core import base_task, base_trainer, input_reader
from quintain.core import config_definitions as cfg


class Counting(base_task.Task):
    def build_model(self):
        model = keras.Sequential([keras.layers.Dense(1)])
        model.build((None, 1))
        return model

    def build_inputs(self, params, input_context=None):
        def decode(record):
            return tf.strings.to_number(record)[tf.newaxis]

        return input_reader.InputReader(params, decoder_fn=decode).read(input_context)

    def build_losses(self, labels, model_outputs, aux_losses=None):
        return tf.reduce_mean(labels)

    def build_metrics(self, training=True):
        return [keras.metrics.Sum(name="sum"), keras.metrics.Sum(name="count")]

    def process_metrics(self, metrics, labels, model_outputs, **kwargs):
        metrics[0].update_state(labels)
        metrics[1].update_state(tf.ones_like(labels))


strategy = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])
counts = []
for path in sys.argv[1:]:
    data = cfg.DataConfig(input_path=path, global_batch_size=4, is_training=False)
    task = Counting(cfg.TaskConfig(validation_data=data))
    config = cfg.ExperimentConfig(task=task.task_config)
    with strategy.scope():
        trainer = base_trainer.Trainer(config, task, task.build_model(), None, train=False)
        logs = trainer.evaluate(tf.constant(-1))
    counts.append([int(logs[name]) for name in ("count", "sum")])
print(json.dumps(counts))
