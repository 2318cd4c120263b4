"""Seeds of random layers, distinct on each replica.

Keras gives the copies of a layer on all replicas the same seed, so that every replica would drop
the same units: dropout over a batch split in two would be as weak as over half of it.
"""

from typing import Final

import keras
import tensorflow as tf

from quintain.checkpoints import checkpoint_state
from quintain.orbit import cluster

_STRIDE: Final = 0x9E3779B9
"""Distance of the seeds of neighbouring replicas: 2**32 over the golden ratio, which spreads them
evenly. Source: Knuth, The Art of Computer Programming, volume 3, section 6.4."""


def make_distinct(model: keras.Model, strategy: tf.distribute.Strategy) -> None:
    """Gives the random layers of a new model another seed on every replica but the first.

    The number of draws so far is left as it is, and so is the first replica, so that a single
    replica trains as it does without a strategy.
    """
    if strategy.num_replicas_in_sync == 1:
        return
    num_local = strategy.num_replicas_in_sync // cluster.num_workers(strategy)
    first = cluster.worker_index(strategy) * num_local
    for generator in checkpoint_state.seed_generators(model):
        for place, part in enumerate(checkpoint_state.local_parts([generator.state])):
            seed, count = (int(number) for number in part.numpy())
            mixed = (seed + (first + place) * _STRIDE) % 2**32
            part.assign(tf.constant([mixed, count], part.dtype))


def mix(state: tf.Tensor, place: tf.Tensor) -> tf.Tensor:
    """Returns the state of a seed generator with the seed that a place among several gets.

    Args:
        state: `[2]`: the seed and the number of draws so far.
        place: `[]` int64.
    """
    seed, count = tf.unstack(tf.cast(state, tf.int64))
    return tf.cast(tf.stack([(seed + place * _STRIDE) % 2**32, count]), state.dtype)
