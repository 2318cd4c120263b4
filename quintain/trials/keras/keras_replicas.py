"""Replicas of a Keras model in several processes: steps, data and metrics of all of them."""

import pathlib
from collections.abc import Callable, Sequence
from typing import Any, Final

import keras
import numpy as np
import tensorflow as tf

from quintain.checkpoints import checkpoint_state
from quintain.distribute import replica_seeds, replica_statistics
from quintain.trials import trial_context
from quintain.trials.process import rank_files

SEED_DISTANCE: Final = 2**40
"""Distance of the seeds that the random operations of neighbouring processes draw from."""

SEEDS_FILE: Final = "seeds.npz"


class Replicas:
    """The copies of a model, one in each process of a trial; a single one is left as it is."""

    def __init__(self, context: trial_context.TrialContext) -> None:
        self._context = context
        self._distributed = context.distributed
        self._strategy = tf.distribute.get_strategy()
        self._model: Any = None
        self._statistics: replica_statistics.ReplicaStatistics | None = None
        self.rank = context.distributed.rank
        self.size = context.distributed.size

    def run(self, step: Callable[..., Any], batch: Any) -> Any:
        """Returns what a step of this process' copy returns."""
        if self.size == 1:
            return step(batch)
        outputs = self._strategy.run(step, args=(batch,))
        return tf.nest.map_structure(
            lambda each: self._strategy.experimental_local_results(each)[0], outputs
        )

    def follow(self, model: keras.Model) -> None:
        """Takes up a model whose variables were created."""
        if self.size == 1:
            return
        if model.built and not model.optimizer.built:
            model.optimizer.build(model.trainable_variables)
        self._model = model
        self.spread_seeds()
        self._statistics = replica_statistics.ReplicaStatistics(self._strategy, model, None)

    def synchronize(self) -> None:
        """Makes the statistics that the copies gathered the same, after training."""
        if self._statistics is not None:
            self._statistics.synchronize()

    def average(self, logs: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """Returns the means over all processes of the metrics of each batch.

        What is no number is that of the first process; so is all, if the experiment does not want
        the means.
        """
        if self.size == 1:
            return logs
        if self._context.get_optimization("average_training_metrics") is False:
            found: list[dict[str, Any]] = self._distributed.broadcast(logs)
            return found
        every = self._distributed.allgather(logs)
        return [
            {name: _mean([each[name] for each in batch]) for name in batch[0]}
            for batch in zip(*every, strict=True)
        ]

    def add(self, count: int) -> int:
        """Returns the sum of a number over all processes."""
        return sum(self._distributed.allgather(count))

    def agree(self, value: Any) -> Any:
        """Returns the value of the first process."""
        return self._distributed.broadcast(value) if self.size > 1 else value

    def interleave(self, values: list[Any]) -> list[Any]:
        """Returns what each process has of its validation batches, in the order of all batches."""
        every = self._distributed.allgather(values)
        longest = max(map(len, every))
        return [part[number] for number in range(longest) for part in every if number < len(part)]

    def save_seeds(self, folder: pathlib.Path, others: Sequence[tf.Variable]) -> None:
        """Writes the random state of this process' copy."""
        if self.size > 1:
            (folder / SEEDS_FILE).write_bytes(self._seeds(others).serialize())

    def restore_seeds(self, folder: pathlib.Path, others: Sequence[tf.Variable]) -> None:
        """Reads the random state that `save_seeds` wrote.

        A process of which the checkpoint has none gets one that is unlike that of the first.
        """
        if self.size == 1:
            return
        part = rank_files.find(folder, self._distributed)
        if (part / SEEDS_FILE).exists() and (part != folder or self.rank == 0):
            self._seeds(others).deserialize((part / SEEDS_FILE).read_bytes())
        else:
            self.spread_seeds()

    def spread_seeds(self) -> None:
        """Gives this process another random state than that of the first, which it has."""
        if self.size > 1:
            replica_seeds.make_distinct(self._model, self._strategy)

    def _seeds(self, others: Sequence[tf.Variable]) -> checkpoint_state.ArrayState:
        generators = checkpoint_state.seed_generators(self._model)
        return checkpoint_state.VariablesState(
            lambda: [*(generator.state for generator in generators), *others]
        )


def _mean(values: Sequence[Any]) -> Any:
    try:
        return np.mean([np.asarray(value, np.float64) for value in values], axis=0).tolist()
    except (TypeError, ValueError):
        return values[0]
