"""Computes the loss of masked words on two replicas.

Two virtual CPUs can only be made before TensorFlow starts.
"""

import json

import tensorflow as tf

from quintain.core import config_definitions as cfg
from quintain.distribute import distribution

two = distribution.build_strategy(
    cfg.RuntimeConfig(distribution_strategy="mirrored", num_virtual_cpus=2)
)

from quintain.core import exp_factory, task_factory
from quintain.nlp import experiments

assert experiments.pretraining
task = task_factory.get_task(exp_factory.get_exp_config("bert/local").task)
logits = tf.random.stateless_normal([4, 3, 5], [0, 1])
ids = tf.constant([[0, 1, 2], [3, 4, 0], [1, 1, 1], [2, 3, 4]])
weights = tf.constant([[1.0, 1.0, 1.0], [1.0, 1.0, 0.0], [1.0, 0.0, 0.0], [0.0, 0.0, 0.0]])


def compute(rows):
    labels = {"masked_lm_ids": ids[rows], "masked_lm_weights": weights[rows]}
    return task.build_losses(labels, {"mlm_logits": logits[rows]})


def compute_share():
    index = tf.distribute.get_replica_context().replica_id_in_sync_group
    start = 2 * index
    labels = {
        "masked_lm_ids": ids[start : start + 2],
        "masked_lm_weights": weights[start : start + 2],
    }
    return task.build_losses(labels, {"mlm_logits": logits[start : start + 2]})


parts = two.experimental_local_results(two.run(tf.function(compute_share)))
together = sum(float(part) for part in parts) / 2
print(json.dumps([two.num_replicas_in_sync, float(compute(slice(0, 4))), together]))
