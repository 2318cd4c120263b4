"""Applies gradients with every optimizer on two replicas, and their sum alone.

Two virtual CPUs can only be made before TensorFlow starts.
"""

import json
import sys

import keras
import numpy as np
import tensorflow as tf

from quintain import optimization
from quintain.optimization import optimizer_factory

cpu = tf.config.list_physical_devices("CPU")[0]
tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 2)
mirrored = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])
DENSE = np.array([[[3.0, 0.0], [1.0, -1.0]], [[0.0, 4.0], [1.0, 0.5]]], "float32")
ROWS = [[1, 0, 1], [2, 1, 2]]


def sparse(rows):
    values = tf.constant([[1.0, 2.0], [3.0, -1.0], [0.5, 0.25]])
    return tf.IndexedSlices(values, rows, tf.constant([4, 2]))


def make(build):
    table = keras.Variable(np.full((4, 2), 0.5, "float32"), name="table")
    matrix = keras.Variable(np.array([[1.0, 2.0], [3.0, 4.0]], "float32"), name="matrix")
    optimizer = build()
    optimizer.build([table, matrix])
    return optimizer, [table, matrix]


def train_replicas(build):
    with mirrored.scope():
        optimizer, weights = make(build)

    def replica_step():
        replica = tf.distribute.get_replica_context().replica_id_in_sync_group
        gradients = [sparse(tf.gather(tf.constant(ROWS), replica)), tf.gather(DENSE, replica)]
        optimizer.apply_gradients(zip(gradients, weights, strict=True))

    step = tf.function(lambda: mirrored.run(replica_step))
    for _ in range(3):
        step()
    copies = zip(
        *(mirrored.experimental_local_results(weight.value) for weight in weights), strict=True
    )
    return [[part.numpy().tolist() for part in copy] for copy in copies]


def train_alone(build):
    optimizer, weights = make(build)
    total = tf.math.add_n([tf.convert_to_tensor(sparse(tf.constant(rows))) for rows in ROWS])
    for _ in range(3):
        optimizer.apply_gradients(zip([total, tf.constant(sum(DENSE))], weights, strict=True))
    return [weight.numpy().tolist() for weight in weights]


def make_builder(name, fields):
    config = optimization.OptimizationConfig(
        {
            "optimizer": {"type": name, name: fields},
            "learning_rate": {"type": "constant"},
        }
    )
    factory = optimizer_factory.OptimizerFactory(config)
    return lambda: factory.build_optimizer(0.1)


results = {}
for name, fields in json.loads(sys.argv[1]).items():
    build = make_builder(name, fields)
    results[name] = (*train_replicas(build), train_alone(build))
optimizer_factory.register_optimizer_cls("mine", keras.optimizers.SGD)


def build():
    return optimizer_factory.OPTIMIZERS["mine"](learning_rate=0.1)


results["an optimizer of keras"] = (*train_replicas(build), train_alone(build))
print(json.dumps(results))
