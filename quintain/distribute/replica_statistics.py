"""Synchronisation of per-replica statistics, such as those of batch normalisation.

Keras keeps the moving mean and variance of `BatchNormalization` in variables of which each replica
updates its own copy. A checkpoint holds the first copy alone, while an evaluation would use all of
them, so that a checkpoint would not give the metrics that were recorded with it.
"""

import functools
from collections.abc import Callable, Sequence

import keras
import tensorflow as tf

from quintain.optimization import ema, fused_optimizer


class ReplicaStatistics:
    """Replaces the copies of all replicas by their mean, wherever they differ.

    To be called when a loop has ended: what is evaluated and saved then is the same everywhere.
    Moving averages are linear, and training does not read them: the mean of the copies at the end
    is that of copies that were made equal before, too.
    """

    def __init__(
        self,
        strategy: tf.distribute.Strategy,
        model: keras.Model,
        average: ema.ExponentialMovingAverage | None,
    ) -> None:
        self._strategy = strategy
        self._model = model
        self._average = average

    def synchronize(self) -> None:
        """Makes the copies equal."""
        if self._strategy.num_replicas_in_sync > 1 and self._variables:
            self._run()

    @functools.cached_property
    def _variables(self) -> list[keras.Variable]:
        variables = list(self._model.non_trainable_variables)
        if self._average is not None and not self._average.trainable_weights_only:
            variables += self._average.average_weights
        # Seeds differ by intent.
        return [part for part in variables if tf.as_dtype(str(part.dtype)).is_floating]

    @functools.cached_property
    def _run(self) -> Callable[[], None]:
        @tf.function(autograph=False)
        def run() -> None:
            self._strategy.run(_make_equal, args=(self._variables,))

        return run


def _make_equal(variables: Sequence[keras.Variable]) -> None:
    context = tf.distribute.get_replica_context()
    is_first = tf.equal(context.replica_id_in_sync_group, 0)
    own = [tf.convert_to_tensor(variable) for variable in variables]
    sums = [tf.where(is_first, value, tf.zeros_like(value)) for value in own]
    first = context.all_reduce(tf.distribute.ReduceOp.SUM, sums)
    # Differences, so that what is equal, as frozen weights, stays exactly as it is.
    changes = [value - base for value, base in zip(own, first, strict=True)]
    changes = context.all_reduce(tf.distribute.ReduceOp.MEAN, changes)
    for variable, base, change in zip(variables, first, changes, strict=True):
        fused_optimizer.write(variable, base + change)
