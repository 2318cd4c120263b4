"""A model function of one's own."""

import tensorflow as tf
from data import load_digits

from quintain.trials import EstimatorTrial


def model_fn(features, labels, mode, params):
    is_training = mode == tf.estimator.ModeKeys.TRAIN
    net = tf.layers.dense(features["image"], params["units"], activation=tf.nn.relu)
    net = tf.layers.dropout(net, rate=params["dropout"], training=is_training)
    logits = tf.layers.dense(net, 10)
    predictions = {"digit": tf.argmax(logits, axis=1)}
    if mode == tf.estimator.ModeKeys.PREDICT:
        return tf.estimator.EstimatorSpec(mode, predictions=predictions)
    loss = tf.losses.sparse_softmax_cross_entropy(labels=labels, logits=logits)
    accuracy = tf.metrics.accuracy(labels, predictions["digit"])
    tf.summary.scalar("accuracy", accuracy[1])
    optimizer = tf.train.AdamOptimizer(params["learning_rate"])
    return tf.estimator.EstimatorSpec(
        mode,
        predictions=predictions,
        loss=loss,
        train_op=optimizer.minimize(loss, global_step=tf.train.get_global_step()),
        eval_metric_ops={"accuracy": accuracy},
    )


class CustomDigitsTrial(EstimatorTrial):
    def build_estimator(self, hparams):
        return tf.estimator.Estimator(model_fn, params=hparams)

    def build_train_spec(self, hparams):
        return tf.estimator.TrainSpec(lambda: load_digits(True, hparams["batch_size"]))

    def build_validation_spec(self, hparams):
        return tf.estimator.EvalSpec(lambda: load_digits(False, 360), steps=1)
