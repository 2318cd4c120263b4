"""The code of the document on TensorFlow models runs as it stands, given data and a model."""

import subprocess
import sys
import textwrap

import numpy as np
import pytest

pytestmark = pytest.mark.slow

CONFIG = """
description: the document's example
data:
  path: {path}/
hyperparameters:
  batch_size:
    type: categorical
    vals: [8, 16]
searcher:
  name: random
  metric: error
  max_steps: 2
  max_trials: 2
batches_per_step: 3
"""

LOADERS = """
import tensorflow as tf


def foo(path):
    values = tf.decode_raw(tf.read_file(path), tf.float32)
    return {"x": values[:3], "y": values[3:]}


def make_data_loaders(experiment_config, hparams):
    # data_path will evaluate to "/my_data_path/"
    data_path = experiment_config["data"]["path"]
    # batch_size will evaluate to either 8 or 16, depending on this trial's
    # sample of hyperparameters.
    batch_size = hparams["batch_size"]

    trainDataset = tf.data.Dataset.list_files(data_path + "train-*.tfrecord")
    trainDataset = trainDataset.map(map_func=foo)
    # PEDL requires that make_data_loaders() return batched Datasets.
    trainDataset = trainDataset.batch(batch_size)
    trainDataset = trainDataset.prefetch(tf.data.experimental.AUTOTUNE)

    valDataset = tf.data.Dataset.list_files(data_path + "val-*.tfrecord")
    valDataset = valDataset.map(map_func=foo)
    # PEDL requires that make_data_loaders() return batched Datasets.
    valDataset = valDataset.batch(batch_size)
    valDataset = valDataset.prefetch(tf.data.experimental.AUTOTUNE)

    return trainDataset, valDataset
"""

TRIAL = """
import tensorflow as tf
from quintain.trials import TensorFlowTrial


class MyTrial(TensorFlowTrial):
    def build_graph(self, record, is_training):
        w = tf.get_variable("w", [3, 1])
        dropped = tf.layers.dropout(record["x"], 0.1, training=is_training)
        error = tf.abs(tf.matmul(dropped, w) - record["y"])
        return {"loss": tf.reduce_mean(error ** 2), "error": tf.reduce_mean(error)}

    def optimizer(self):
        return tf.train.MomentumOptimizer(0.01, 0.9)

    def validation_metrics(self):
        return ["loss", "error"]

    def training_metrics(self):
        return ["error"]

    def session_config(self):
        return tf.ConfigProto(allow_soft_placement=True)
"""

ESTIMATOR = """
import tensorflow as tf
from data import make_data_loaders
from quintain.trials import EstimatorTrial, get_experiment_config

COLUMNS = [tf.feature_column.numeric_column("x", shape=[3])]


def read(which, hparams):
    pair = make_data_loaders(get_experiment_config(), hparams)
    return pair[which].map(lambda record: ({"x": record["x"]}, record["y"]))


class MyTrial(EstimatorTrial):
    def build_estimator(self, hparams):
        return tf.estimator.LinearRegressor(COLUMNS)

    def build_train_spec(self, hparams):
        return tf.estimator.TrainSpec(lambda: read(0, hparams), max_steps=1)

    def build_validation_spec(self, hparams):
        return tf.estimator.EvalSpec(lambda: read(1, hparams), steps=None)

    def build_serving_input_receiver_fns(self, hparams):
        return {
            "raw": tf.estimator.export.build_raw_serving_input_receiver_fn(
                {"x": tf.placeholder(tf.float32, [None, 3])}
            ),
            "parsing": tf.estimator.export.build_parsing_serving_input_receiver_fn(
                tf.feature_column.make_parse_example_spec(COLUMNS)
            ),
        }
"""

PROGRAM = """
import sys
from quintain.records.config import experiment_spec
from quintain.trials.process import local
local.run_locally(experiment_spec.load(sys.argv[1]), sys.argv[2], test=True)
"""


@pytest.fixture
def config(tmp_path):
    random = np.random.RandomState(0)
    for name in [f"train-{number}" for number in range(20)] + ["val-1", "val-2"]:
        x = random.normal(size=3)
        values = np.append(x, x.sum()).astype("float32")
        (tmp_path / f"{name}.tfrecord").write_bytes(values.tobytes())
    path = tmp_path / "config.yaml"
    path.write_text(CONFIG.format(path=tmp_path))
    return path


def run(config, directory):
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(config), str(directory)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_package_with_a_tensorflow_trial_and_no_entrypoint_runs(config, tmp_path):
    directory = tmp_path / "my_model"
    directory.mkdir()
    (directory / "data.py").write_text(LOADERS)
    (directory / "model_def.py").write_text(TRIAL)
    (directory / "__init__.py").write_text(
        textwrap.dedent("""
        from .data import make_data_loaders
        from .model_def import MyTrial
        """)
    )
    output = run(config, directory)
    assert "Validated on 2 examples" in output
    assert "The restored trial validates and trains as before" in output


def test_one_file_with_a_tensorflow_trial_runs(config, tmp_path):
    directory = tmp_path / "single"
    directory.mkdir()
    (directory / "model_def.py").write_text(LOADERS + TRIAL)
    assert "The restored trial validates and trains as before" in run(config, directory)


def test_an_estimator_trial_runs_and_exports_both_serving_functions(config, tmp_path):
    directory = tmp_path / "estimator"
    directory.mkdir()
    (directory / "data.py").write_text(LOADERS)
    (directory / "model_def.py").write_text(ESTIMATOR)
    config.write_text(config.read_text().replace("metric: error", "metric: average_loss"))
    output = run(config, directory)
    assert "The restored trial validates and trains as before" in output
