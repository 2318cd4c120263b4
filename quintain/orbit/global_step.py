"""The variable that counts train steps."""

import tensorflow as tf


def create_global_step() -> tf.Variable:
    """Creates a step counter for a `Controller`.

    An optimizer's `iterations` will not do when a step updates the weights several times, or with
    several optimizers, or if it is a `keras.Variable`. The train step has to add 1 to this counter.

    Returns:
        `[]` int64 variable, 0, not trainable. Under a distribution strategy create it inside of the
        scope; the replicas keep equal copies, and the first one's counts.
    """
    return tf.Variable(
        0,
        dtype=tf.int64,
        name="global_step",
        trainable=False,
        aggregation=tf.VariableAggregation.ONLY_FIRST_REPLICA,
    )
