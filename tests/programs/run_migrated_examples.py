"""Runs a trial of each directory that is named, one after the other, in this process.

It prints what each said last, and then what older code finds in Keras.
"""

import json
import pathlib
import sys

from quintain.cli.experiment import file as experiment_file
from quintain.trials.process import local


def run(directory):
    modules, path = set(sys.modules), list(sys.path)
    told = []
    config = experiment_file.load(str(directory / "const.yaml")).config
    local.run_locally(config, directory, test=True, tell=told.append)
    sys.path[:] = path
    for name in set(sys.modules) - modules:
        if getattr(sys.modules[name], "__file__", None) and str(directory) in str(
            sys.modules[name].__file__
        ):
            del sys.modules[name]
    return told


def describe_older_keras():
    import keras
    import tensorflow as tf
    from keras.layers.core import Dense
    from keras.preprocessing.image import ImageDataGenerator
    from keras.utils.data_utils import Sequence
    from tensorflow.keras.utils.np_utils import to_categorical
    from tensorflow.python.keras.datasets.cifar import load_batch

    optimizer = keras.optimizers.legacy.SGD(lr=0.1, decay=0.5)
    weight = keras.Variable(0.0)
    optimizer.build([weight])
    rates = []
    for rate in (0.1, 0.1, 0.4):  # The last one as callbacks set it.
        keras.backend.set_value(optimizer.lr, rate)
        before = float(weight)
        optimizer.apply_gradients([(tf.constant(1.0), weight)])
        rates.append(before - float(weight))
    serialized = keras.optimizers.deserialize(keras.optimizers.serialize(optimizer))
    serialized.iterations.assign(2)
    rates.append(float(serialized.learning_rate))
    model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)])
    model.compile("sgd", "mse", ["mae"])
    measured = sorted(model.train_on_batch(tf.ones((2, 2)), tf.ones((2, 1)), return_dict=True))
    model.compile("sgd", "mse", [2.0])
    inputs = keras.Input((2,))
    outputs = [keras.layers.Dense(1, name=name)(inputs) for name in ("one", "two")]
    model = keras.Model(inputs, outputs)
    model.compile("sgd", "mse")
    losses = [
        float(
            model.test_on_batch(
                tf.ones((2, 2)),
                {name: tf.ones((2, 1)) for name in ("one", "two")},
                {"one": tf.constant([one, one]), "two": tf.constant([two, two])},
                return_dict=True,
            )["loss"]
        )
        for one, two in ((1.0, 0.0), (0.0, 1.0), (2.0, 3.0))
    ]
    try:
        keras.optimizers.Adam(0.1, unknown=1)
        refused = ""
    except ValueError as error:
        refused = str(error)
    return {
        "same": [
            Dense is keras.layers.Dense,
            issubclass(Sequence, keras.utils.PyDataset),
            callable(load_batch),
            to_categorical is keras.utils.to_categorical,
            len(ImageDataGenerator().flow(to_categorical([0] * 8).reshape(8, 1, 1, 1))) == 1,
        ],
        "rates": rates,
        "mean": float(keras.backend.mean(keras.Variable([1.0, 3.0]))),
        "losses": losses,
        "measured": measured,
        "plain": float(keras.optimizers.Adam(0.2).learning_rate),
        "refused": refused,
        "tensorflow": [hasattr(tf, "ConfigProto"), tf.executing_eagerly(), tf.abs is tf.math.abs],
    }


if __name__ == "__main__":
    directories = [pathlib.Path(name) for name in sys.argv[2:]]
    results = {directory.name: run(directory) for directory in directories}
    if sys.argv[1] == "keras":
        results["older_keras"] = describe_older_keras()
    sys.stdout.write("\n" + json.dumps(results))
