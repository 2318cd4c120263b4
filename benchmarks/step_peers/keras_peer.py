"""A model of Keras, trained by `fit`."""

from collections.abc import Callable, Iterator
from typing import Any

import keras
import measuring


def set_precision(precision: str) -> None:
    """Sets what layers compute in."""
    keras.utils.set_random_seed(0)
    if precision == "bfloat16":
        keras.config.set_dtype_policy("mixed_bfloat16")


class KerasPeer:
    """Trains a compiled model. Layers and weights have the names that all peers use."""

    def __init__(
        self, model: keras.Model, data: list[Any], evaluate: Callable[[keras.Model], float]
    ) -> None:
        """Stores the compiled model, its batches, and what computes the last loss."""
        self.model = model
        self.data = data
        self._evaluate = evaluate

    def load(self, weights: measuring.Weights) -> None:
        """Starts from the given weights."""
        for variable in self.model.trainable_variables:
            variable.assign(weights.take(variable.path).reshape(variable.shape))

    def train(self, first: int, count: int) -> float:
        """Trains on the batches from number `first` on; returns the mean of their losses."""
        batches = self._generate(first, count)
        history = self.model.fit(batches, steps_per_epoch=count, verbose=0).history
        return float(history["loss"][0])

    def evaluate(self) -> float:
        """Returns the loss that is compared at the end."""
        return self._evaluate(self.model)

    def _generate(self, first: int, count: int) -> Iterator[Any]:
        for number in range(first, first + count):
            yield self.data[number % len(self.data)]
