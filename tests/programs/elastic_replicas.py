"""What elastic runs come to on 1, 2, 4 and 8 replicas, for `tests/core/test_elastic_runs.py`.

Virtual CPUs can only be made before TensorFlow starts.
"""

import hashlib
import json
import pathlib
import sys
import tempfile

import tensorflow as tf

processor = tf.config.list_physical_devices("CPU")[0]
tf.config.set_logical_device_configuration(processor, [tf.config.LogicalDeviceConfiguration()] * 8)

import keras

import quintain.registered_experiments  # noqa: F401 - translation
from quintain.core import exp_factory, task_factory, train_lib

sys.path.insert(0, sys.argv[1])
import line_experiment

STRATEGIES = {
    1: tf.distribute.OneDeviceStrategy("/cpu:0"),
    **{n: tf.distribute.MirroredStrategy([f"/cpu:{i}" for i in range(n)]) for n in (2, 4, 8)},
}

NUMBERS = {"dense": (1, 2, 8), "translation": (1, 4)}
LOOPS = {"steps_per_loop": 4, "summary_interval": 4, "validation_interval": 4}


class DenseTask(line_experiment.LineTask):
    """Has normalisation, whose statistics move, and further metrics."""

    def build_model(self):
        inputs = keras.Input([line_experiment.NUM_FEATURES])
        hidden = keras.layers.Dense(8, activation="relu")(inputs)
        hidden = keras.layers.BatchNormalization(momentum=0.9)(hidden)
        hidden = keras.layers.Dropout(self.task_config.dropout_rate)(hidden)
        return keras.Model(inputs, keras.layers.Dense(1)(hidden))


def build_dense():
    params = line_experiment.build_line_experiment()
    params.override({"task": {"train_data": {"global_batch_size": 16}, "dropout_rate": 0.3}})
    average = {"average_decay": 0.5, "trainable_weights_only": False}
    params.override({"trainer": {"optimizer_config": {"ema": average}, "norm_summaries": True}})
    params.override({"trainer": LOOPS})
    return params, DenseTask


def build_translation():
    params = exp_factory.get_exp_config("translation/local")
    params.override({"task": {"train_data": {"global_batch_size": 2048}, "max_vocab_pairs": 500}})
    params.override({"task": {"validation_data": {"global_batch_size": 32}}})
    layers = {"num_layers": 1, "num_attention_heads": 2, "intermediate_size": 32}
    layers["dropout_rate"] = layers["attention_dropout_rate"] = 0.05
    model = {"embedding_width": 16, "dropout_rate": 0.05, "encoder": layers, "decoder": layers}
    params.override({"task": {"model": model, "vocab_size": 200}})
    params.override({"trainer": LOOPS})
    return params, task_factory.get_task_cls(type(params.task))


def train(build, replicas, num_steps, model_dir):
    """Trains up to a step; returns what each entry of the checkpoint holds, and the metrics."""
    params, task_cls = build()
    params.override({"runtime": {"elastic": True}})
    params.override({"trainer": {"train_steps": num_steps, "checkpoint_interval": 4}})
    strategy = STRATEGIES[replicas]
    with strategy.scope():
        task = task_cls(params.task, logging_dir=model_dir)
    logs = {}
    _, found = train_lib.run_experiment(
        strategy,
        task,
        "train" if task_cls is not DenseTask else "train_and_eval",
        params,
        model_dir,
        train_actions=[lambda output: logs.update(output)],
    )
    return read(pathlib.Path(model_dir, f"ckpt-{num_steps}")), {
        name: float(tf.convert_to_tensor(value)).hex()
        for name, value in {**logs, **found}.items()
        if not name.endswith(("_ms", "_gb", "_per_second", "_share", "_percent"))
    }


def read(path):
    reader = tf.train.load_checkpoint(str(path))
    return {
        name: hashlib.sha256(value if isinstance(value, bytes) else value.tobytes()).hexdigest()
        for name in reader.get_variable_to_shape_map()
        for value in [reader.get_tensor(name)]
    }


results = {}
with tempfile.TemporaryDirectory() as scratch:
    for build in map(globals().get, sys.argv[2:] or ("build_dense", "build_translation")):
        name = build.__name__.partition("_")[2]
        for replicas in NUMBERS[name]:
            model_dir = f"{scratch}/{name}{replicas}"
            results[f"{name} {replicas}"] = train(build, replicas, 12, model_dir)
        changing = f"{scratch}/{name} changing"
        for replicas, num_steps in ((2, 4), (1, 8), (4, 12)):
            results[f"{name} changing"] = train(build, replicas, num_steps, changing)
print(json.dumps(results))
