"""Predictions of a model over a dataset, on all devices of the strategy."""

from collections.abc import Callable
from typing import Any

import tensorflow as tf

from quintain import orbit
from quintain.orbit import iterators
from quintain.reference import reference_names

__getattr__ = reference_names.refusing(__name__)


def predict(
    predict_step_fn: Callable[[Any], Any],
    aggregate_fn: Callable[[Any, Any], Any],
    dataset: tf.data.Dataset,
) -> Any:
    """Predicts all batches of a dataset, in the scope of the strategy that is in force.

    Args:
        predict_step_fn: Takes one replica's batch and returns a structure of tensors.
        aggregate_fn: Takes what it returned before, None at first, and the outputs of a batch: a
            structure of tuples with one tensor a replica.
        dataset: The batches, distributed or not.

    Returns:
        What `aggregate_fn` returned last.
    """

    @tf.function
    def predict_step(iterator: Any) -> Any:
        strategy = tf.distribute.get_strategy()
        outputs = strategy.run(predict_step_fn, args=(next(iterator),))
        return tf.nest.map_structure(strategy.experimental_local_results, outputs)

    loop = orbit.utils.create_loop_fn(predict_step)
    return loop(iterators.create(dataset), num_steps=-1, state=None, reduce_fn=aggregate_fn)
