"""A premade estimator."""

import tensorflow as tf
from data import load_digits

from quintain.trials import EstimatorTrial

FEATURES = [tf.feature_column.numeric_column("image", shape=[64])]


class DigitsTrial(EstimatorTrial):
    def build_estimator(self, hparams):
        return tf.estimator.DNNClassifier(
            hidden_units=[hparams["units"]],
            feature_columns=FEATURES,
            n_classes=10,
            dropout=hparams["dropout"],
            optimizer=tf.train.AdamOptimizer(hparams["learning_rate"]),
        )

    def build_train_spec(self, hparams):
        return tf.estimator.TrainSpec(lambda: load_digits(True, hparams["batch_size"]))

    def build_validation_spec(self, hparams):
        return tf.estimator.EvalSpec(lambda: load_digits(False, hparams["batch_size"]), steps=None)

    def build_serving_input_receiver_fns(self, hparams):
        spec = tf.feature_column.make_parse_example_spec(FEATURES)
        return {
            "parsing": tf.estimator.export.build_parsing_serving_input_receiver_fn(spec),
        }
