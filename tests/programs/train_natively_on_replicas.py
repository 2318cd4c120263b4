"""Trains a block natively on two processors of a machine, and saves it."""

import json
import pathlib
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).parents[2]))

import numpy as np
import tensorflow as tf

processor = tf.config.list_physical_devices("CPU")[0]
tf.config.set_logical_device_configuration(processor, [tf.config.LogicalDeviceConfiguration()] * 2)

from tensorflow.core.protobuf import saved_model_pb2

from quintain.kernels import modes, selection
from quintain.nlp.modeling import layers

strategy = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])
with strategy.scope():
    block = layers.TransformerEncoderBlock(2, 16, "relu", output_dropout=0.0)
    block.build([None, 4, 8])
x = tf.constant(np.random.default_rng(3).normal(size=[6, 4, 8]), tf.float32)


def differentiate(mode: modes.KernelMode) -> list[tf.Tensor]:
    with selection.training_scope(mode), tf.GradientTape() as tape:
        loss = tf.reduce_sum(block(x, training=True) * x)
        return tape.gradient(loss, block.trainable_variables)


@tf.function
def step() -> list[tf.Tensor]:
    per_replica = strategy.run(differentiate, [modes.KernelMode.NATIVE])
    return [strategy.reduce(tf.distribute.ReduceOp.MEAN, one, axis=None) for one in per_replica]


found = step()
operations = step.get_concrete_function().graph.get_operations()
expected = strategy.run(differentiate, [modes.KernelMode.TENSORFLOW])
expected = [strategy.experimental_local_results(one)[0] for one in expected]

module = tf.Module()
module.block = block
module.serve = tf.function(
    lambda x: block(x, training=False), input_signature=[tf.TensorSpec([None, 4, 8])]
)
with tempfile.TemporaryDirectory() as directory:
    tf.saved_model.save(module, directory, signatures=module.serve)
    saved = saved_model_pb2.SavedModel()
    saved.ParseFromString(pathlib.Path(directory, "saved_model.pb").read_bytes())
functions = [one.node_def for one in saved.meta_graphs[0].graph_def.library.function]
nodes = [node.op for one in (*functions, saved.meta_graphs[0].graph_def.node) for node in one]
print(
    json.dumps(
        {
            "native": sum(one.type.startswith("Quintain") for one in operations),
            "gradients": [float(tf.norm(one)) for one in found],
            "expected": [float(tf.norm(one)) for one in expected],
            "saved": [one for one in nodes if one.startswith("Quintain")],
        }
    )
)
