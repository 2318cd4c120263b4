"""Prints, as JSON, what copies of a process compute and know that has started `warm` or `cold`."""

import gc
import hashlib
import json
import os
import pathlib
import re
import sys
import tempfile
import zipfile

import keras
import numpy as np
import tensorflow as tf
from tensorflow.python.eager import context
from tensorflow.python.framework import ops

from quintain.master.processes import fork_server
from quintain.process import held_ports
from quintain.trials import trial_context, warm_up
from quintain.trials.keras import keras_trial


def list_threads():
    """Returns the names of the threads that a copy would miss."""
    return sorted(map(fork_server._read_thread_name, fork_server._find_others()))


def count_left():
    """Returns how many things are there that only a computation makes."""
    kinds = {"EagerTensor", "FuncGraph", "ConcreteFunction", "ResourceVariable"}
    return sum(type(each).__name__ in kinds for each in gc.get_objects())


class Line(keras_trial.KerasTrial):
    """A trial that draws random numbers of all kinds."""

    def build_model(self):
        """Returns a model whose layers have the names that Keras finds for them."""
        model = keras.Sequential([keras.layers.Dense(8, "relu"), keras.layers.Dropout(0.3)])
        model.add(keras.layers.Dense(1))
        model.compile(keras.optimizers.Adam(0.01), "mse", metrics=["mae"])
        self.model = model
        return model

    def build_training_data_loader(self):
        """Returns shuffled batches of random numbers."""
        x = np.random.normal(size=(45, 5)).astype("float32")
        noise = tf.random.normal((45, 1)).numpy()
        data = tf.data.Dataset.from_tensor_slices((x, x.sum(axis=1, keepdims=True) + noise))
        return data.shuffle(45).map(lambda x, y: (x + tf.random.normal((5,)), y)).batch(8)

    build_validation_data_loader = build_training_data_loader


def train():
    """Returns all weights after a training, by their names, the metrics, and what is saved."""
    spec = trial_context.TrialContext.from_config({"reproducibility": {"experiment_seed": 3}}).spec
    controller = keras_trial.build_controller(Line, trial_context.TrialContext(spec))
    logs = controller.train(20)
    values = [value.numpy().tobytes() for value in controller.trial.model.weights]
    names = [value.path for value in controller.trial.model.weights]
    with tempfile.TemporaryDirectory() as directory:
        controller.save(directory)
        saved = sorted(path.name for path in pathlib.Path(directory).iterdir())
        with zipfile.ZipFile(pathlib.Path(directory, "model.keras")) as file:
            config = re.sub(r'"shared_object_id": \d+', "", file.read("config.json").decode())
    return [names, hashlib.sha256(b"".join(values)).hexdigest(), repr(logs), saved, config]


def train_in_graph():
    """Returns what a graph of TensorFlow 1 computes, and how its operations are called."""
    tf.random.set_seed(3)
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        tf.compat.v1.set_random_seed(3)
        value = tf.compat.v1.get_variable("value", (3, 3))
        product = tf.linalg.matmul(value, value) + tf.random.normal((3, 3))
        session.run(tf.compat.v1.global_variables_initializer())
        return [session.run(product).tolist(), product.name, value.name]


def configure():
    """Returns what can be set before TensorFlow computes, and how many threads there are then."""
    tf.config.threading.set_intra_op_parallelism_threads(5)
    tf.config.threading.set_inter_op_parallelism_threads(3)
    (device,) = tf.config.list_physical_devices("CPU")
    halves = [tf.config.LogicalDeviceConfiguration()] * 2
    tf.config.set_logical_device_configuration(device, halves)
    tf.config.experimental.enable_op_determinism()
    tf.config.optimizer.set_experimental_options({"disable_meta_optimizer": True})
    tf.compat.v1.enable_eager_execution()
    strategy = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])
    total = strategy.reduce("sum", strategy.run(lambda: tf.constant(2.0)), axis=None)
    return [
        float(total),
        len(tf.config.list_logical_devices("CPU")),
        list_threads().count("tf_Compute"),
    ]


def join_cluster():
    """Returns the devices of values in a cluster that code makes for itself."""
    held = held_ports.hold()
    cluster = {"worker": [f"127.0.0.1:{held.getsockname()[1]}"]}
    task = {"type": "worker", "index": 0}
    os.environ["TF_CONFIG"] = json.dumps({"cluster": cluster, "task": task})
    strategy = tf.distribute.MultiWorkerMirroredStrategy()
    with strategy.scope():
        variable = tf.Variable([1.0, 2.0])
        with tf.device("/device:CPU:0"), tf.device("CPU:0"):
            value = tf.constant(1) + 1
        values = [value, tf.zeros((3,)), tf.ones((3,)), tf.constant(1.0) * 2]
        weight = keras.layers.Dense(2)(tf.zeros((11, 5)))
    total = strategy.reduce("sum", strategy.run(lambda: variable * 2.0), axis=None)
    return [total.numpy().tolist(), [each.device for each in (*values, weight)]]


def know():
    """Returns what is counted and remembered."""
    return {
        "names": [keras.layers.Dense(1).name, keras.Sequential().name, keras.Variable(1.0).name],
        "graph": ops._default_graph_stack._global_default_graph is None,
        "gradients": sum("CustomGradient" in name for name in ops.gradient_registry.list()),
        "numpy": np.random.random(),
        "state": keras.random.SeedGenerator(7).state.path,
    }


def ask_copy(function):
    """Returns what a function returns in a copy of this process."""
    reading, writing = os.pipe()
    if os.fork() == 0:
        try:
            answer = function()
        except Exception as error:  # noqa: BLE001 - it is the answer, which no test expects.
            answer = f"{type(error).__name__}: {error}"
        os.write(writing, json.dumps(answer).encode())
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as file:
        answer = file.read()
    os.wait()
    return json.loads(answer or '"it died"')


def main():
    """Warms up or does not, and asks the copies."""
    np.random.seed(5)
    if sys.argv[1] == "warm":
        warm_up.warm_up()
    gc.collect()
    print(
        json.dumps(
            {
                "left": count_left(),
                "threads": [name for name in list_threads() if name != "tf_graph_runner"],
                "context": str(context._context),
                "copies": {
                    function.__name__: ask_copy(function)
                    for function in (know, train, train_in_graph, configure, join_cluster)
                },
            }
        )
    )


if __name__ == "__main__":
    main()
