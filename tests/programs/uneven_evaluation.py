"""Evaluates one of several tasks on one and on two replicas; the last batch is a single example."""

import json
import sys

import keras
import tensorflow as tf

from quintain.core import base_task
from quintain.core import config_definitions as cfg
from quintain.core.multitask import evaluator
from quintain.distribute import distribution

BATCH = 4


class Line(base_task.Task):
    def build_inputs(self, params, input_context=None):
        x = tf.reshape(tf.range(9, dtype=tf.float32), [9, 1])
        replicas = input_context.num_replicas_in_sync if input_context else 1
        return tf.data.Dataset.from_tensor_slices((x, 2.0 * x)).batch(BATCH // replicas)

    def build_losses(self, labels, model_outputs, aux_losses=None):
        return tf.reduce_mean(tf.square(labels - model_outputs))


two = distribution.build_strategy(
    cfg.RuntimeConfig(distribution_strategy="mirrored", num_virtual_cpus=2)
)
losses = []
for strategy in (tf.distribute.OneDeviceStrategy("/cpu:0"), two):
    with strategy.scope():
        model = keras.Sequential([keras.Input((1,)), keras.layers.Dense(1, "relu", False, "ones")])
        evaluation = evaluator.MultiTaskEvaluator([Line(cfg.TaskConfig(), name="line")], model)
        logs = evaluation.evaluate(tf.constant(-1))
    losses.append(float(logs["line"]["validation_loss"]))
sys.stdout.write(json.dumps(losses))
