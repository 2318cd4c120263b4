"""Measures a model by `quintain.fit` and by Keras' `fit`, on two replicas.

Two virtual CPUs can only be made before TensorFlow starts.
"""

import json
import tempfile

import keras
import numpy as np
import tensorflow as tf

cpu = tf.config.list_physical_devices("CPU")[0]
tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 2)

from quintain.run.fitting import fit

X = np.random.RandomState(0).normal(size=[26, 4]).astype("float32")
Y = X.sum(axis=1, keepdims=True)
DATA = tf.data.Dataset.from_tensor_slices((X, Y)).batch(8, drop_remainder=True)


def build():
    keras.utils.set_random_seed(7)
    inputs = keras.Input([4])
    outputs = [keras.layers.Dense(1, name=name)(inputs) for name in ("left", "right")]
    model = keras.Model(inputs, outputs)
    model.compile(
        keras.optimizers.SGD(0.02),
        ["mse", "mae"],
        metrics=[["mae"], [keras.metrics.RootMeanSquaredError(name="rmse")]],
        jit_compile=False,
    )
    return model


data = DATA.map(lambda x, y: (x, (y, y)))
with tempfile.TemporaryDirectory() as directory:
    found = fit.fit(
        build,
        data,
        data.take(2),
        model_dir=f"{directory}/run",
        epochs=2,
        runtime={"distribution_strategy": "mirrored", "num_virtual_cpus": 2},
    ).history
with tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"]).scope():
    model = build()
expected = model.fit(data, epochs=2, validation_data=data.take(2), verbose=0).history
print(json.dumps({"quintain": found, "keras": expected}))
