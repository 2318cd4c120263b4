"""Applies gradients on two replicas, in many ways.

Two virtual CPUs can only be made before TensorFlow starts.
Replica 0 has the gradient [3, 0] and replica 1 has [0, 4]; the norm of their sum is 5.
"""

import json

import keras
import numpy as np
import tensorflow as tf

from quintain import optimization

cpu = tf.config.list_physical_devices("CPU")[0]
tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 2)
strategy = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])


def train(build, second=(0.0, 4.0), use_function=True, is_sparse=False):
    with strategy.scope():
        shape = (3, 1) if is_sparse else (2,)
        weight = keras.Variable(np.zeros(shape, "float32"))
        optimizer = build()
        optimizer.build([weight])

    def replica_step():
        replica = tf.distribute.get_replica_context().replica_id_in_sync_group
        gradient = tf.gather(tf.constant([(3.0, 0.0), second]), replica)
        if is_sparse:
            rows = tf.stack([replica, replica + 1])
            gradient = tf.IndexedSlices(tf.constant([[1.0], [1.0]]), rows, tf.constant(shape))
        optimizer.apply_gradients([(gradient, weight)])

    def step():
        return strategy.run(replica_step)

    (tf.function(step) if use_function else step)()
    copies = [np.ravel(part).tolist() for part in strategy.experimental_local_results(weight.value)]
    return [*copies, int(optimizer.iterations.numpy())]


def apply_outside(use_function):
    with strategy.scope():
        weight = keras.Variable([0.0, 0.0])
        optimizer = optimization.SGD(1.0)
        optimizer.build([weight])

        def step():
            return optimizer.apply_gradients([(tf.constant([3.0, 4.0]), weight)])

        (tf.function(step) if use_function else step)()
    copies = [part.numpy().tolist() for part in strategy.experimental_local_results(weight.value)]
    return [*copies, int(optimizer.iterations.numpy())]


def double(pairs):
    return [(2.0 * gradient, weight) for gradient, weight in pairs]


def scaled():
    return optimization.LossScaleOptimizer(optimization.SGD(1.0), initial_scale=2.0)


print(
    json.dumps(
        {
            "global": train(lambda: optimization.SGD(1.0, global_clipnorm=1.0)),
            "norm": train(lambda: optimization.SGD(1.0, clipnorm=1.0)),
            "value": train(lambda: optimization.SGD(1.0, clipvalue=3.5)),
            "eager": train(lambda: optimization.SGD(1.0, clipnorm=1.0), use_function=False),
            "adamw": train(lambda: optimization.AdamWeightDecay(1.0, epsilon=1.0, beta_2=0.0)),
            "sparse": train(lambda: optimization.SGD(1.0), is_sparse=True),
            "sparse clipped": train(lambda: optimization.SGD(1.0, clipvalue=1.5), is_sparse=True),
            "keras": train(lambda: keras.optimizers.SGD(1.0, global_clipnorm=1.0)),
            "aggregator": train(lambda: optimization.SGD(1.0, gradient_aggregator=double)),
            "transformer": train(lambda: optimization.SGD(1.0, gradient_transformers=[double])),
            "outside": apply_outside(False),
            "outside in a graph": apply_outside(True),
            "scaled": train(scaled),
            "overflow": train(scaled, second=(float("inf"), 4.0)),
        }
    )
)
