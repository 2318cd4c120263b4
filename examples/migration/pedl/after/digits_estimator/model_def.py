"""A premade estimator over feature columns."""

import os
import tempfile

import numpy as np
import tensorflow as tf
from sklearn import datasets

from quintain.trials import get_download_data_dir
from quintain.trials.tensorflow import EstimatorTrial, wrap_dataset, wrap_optimizer

IMAGE = tf.feature_column.numeric_column("image", shape=[64])


def download_data(experiment_config, hparams):
    directory = tempfile.mkdtemp()
    digits = datasets.load_digits()
    images = (digits.data / 16).astype(np.float32)
    np.savez(os.path.join(directory, "digits.npz"), images=images, labels=digits.target)
    return directory


class DigitsTrial(EstimatorTrial):
    def __init__(self, hparams):
        with np.load(os.path.join(get_download_data_dir(), "digits.npz")) as arrays:
            self.images, self.labels = arrays["images"], arrays["labels"]

    def make_input_fn(self, rows, batch_size):
        def input_fn():
            parts = ({"image": self.images[rows]}, self.labels[rows])
            dataset = wrap_dataset(tf.data.Dataset.from_tensor_slices(parts))
            return dataset.batch(batch_size)

        return input_fn

    def build_estimator(self, hparams):
        optimizer = wrap_optimizer(tf.train.AdamOptimizer(hparams["learning_rate"]))
        return tf.estimator.DNNClassifier(
            feature_columns=[IMAGE],
            hidden_units=[hparams["units"]],
            n_classes=10,
            optimizer=optimizer,
            config=tf.estimator.RunConfig(tf_random_seed=3),
        )

    def build_train_spec(self, hparams):
        return tf.estimator.TrainSpec(
            self.make_input_fn(slice(None, 1437), hparams["batch_size"]), max_steps=1000
        )

    def build_validation_spec(self, hparams):
        return tf.estimator.EvalSpec(self.make_input_fn(slice(1437, None), 90), steps=None)

    def build_serving_input_receiver_fns(self, hparams):
        spec = tf.feature_column.make_parse_example_spec([IMAGE])
        return {"parsing": tf.estimator.export.build_parsing_serving_input_receiver_fn(spec)}
