"""A graph of TensorFlow 1."""

from typing import Any, Dict, List

import tensorflow as tf

import quintain.trials as pedl
from quintain.trials.tensorflow import TensorFlowTrial


class DigitsTrial(TensorFlowTrial):
    def __init__(self, hparams: Dict[str, Any]):
        self.units = hparams["units"]
        self.base_learning_rate = hparams["learning_rate"]

    def session_config(self) -> tf.ConfigProto:
        return tf.ConfigProto(intra_op_parallelism_threads=1, inter_op_parallelism_threads=1)

    def build_graph(self, record, is_training):
        net = tf.layers.dense(record["image"], self.units, activation=tf.nn.relu)
        net = tf.layers.dropout(net, rate=pedl.get_hyperparameter("dropout"), training=is_training)
        logits = tf.layers.dense(net, 10)
        loss = tf.losses.sparse_softmax_cross_entropy(labels=record["label"], logits=logits)
        right = tf.equal(tf.argmax(logits, axis=1), tf.cast(record["label"], tf.int64))
        self.learning_rate = tf.train.exponential_decay(
            self.base_learning_rate, self.training_counter(), 100, 0.96
        )
        return {"loss": loss, "error": 1.0 - tf.reduce_mean(tf.cast(right, tf.float32))}

    def optimizer(self) -> tf.train.Optimizer:
        return tf.train.MomentumOptimizer(self.learning_rate, momentum=0.9)

    def training_metrics(self) -> List[str]:
        return ["error"]

    def validation_metrics(self) -> List[str]:
        return ["loss", "error"]
