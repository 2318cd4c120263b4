"""Sums gradients of looked-up rows, whose number differs from step to step, over two replicas."""

import json

import keras
import tensorflow as tf

processor = tf.config.list_physical_devices("CPU")[0]
tf.config.set_logical_device_configuration(processor, [tf.config.LogicalDeviceConfiguration()] * 2)

from quintain import optimization

strategy = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])
with strategy.scope():
    table = keras.Variable(tf.zeros([5, 2]))
    optimizer = optimization.SGD(1.0)
    optimizer.build([table])


def step(count: tf.Tensor) -> None:
    with tf.GradientTape() as tape:
        total = tf.reduce_sum(tf.gather(tf.convert_to_tensor(table), tf.range(count)))
    optimizer.apply_gradients([(tape.gradient(total, table.value), table)])


@tf.function
def loop() -> None:
    for number in tf.range(3):
        strategy.run(step, args=(number + 2,))


loop()
print(json.dumps(table.numpy().tolist()))
