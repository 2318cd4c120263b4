"""A network with batch normalisation and dropout, as it was written for TensorFlow 1."""

import tensorflow as tf

from quintain.trials import TensorFlowTrial


class DigitsTrial(TensorFlowTrial):
    def __init__(self, hparams):
        self.hparams = hparams

    def build_graph(self, record, is_training):
        net = tf.layers.dense(record["image"], self.hparams["units"])
        net = tf.nn.relu(tf.layers.batch_normalization(net, training=is_training))
        net = tf.layers.dropout(net, rate=self.hparams["dropout"], training=is_training)
        logits = tf.layers.dense(net, 10)
        loss = tf.losses.sparse_softmax_cross_entropy(labels=record["label"], logits=logits)
        right = tf.equal(tf.argmax(logits, axis=1), record["label"])
        self.learning_rate = tf.train.exponential_decay(
            self.hparams["learning_rate"], self.training_counter(), 100, 0.96
        )
        return {
            "loss": loss,
            "accuracy": tf.reduce_mean(tf.cast(right, tf.float32)),
            "learning_rate": self.learning_rate,
        }

    def optimizer(self):
        return tf.train.MomentumOptimizer(self.learning_rate, momentum=0.9)

    def training_metrics(self):
        return ["accuracy", "learning_rate"]

    def validation_metrics(self):
        return ["loss", "accuracy"]
