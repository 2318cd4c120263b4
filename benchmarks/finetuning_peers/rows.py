"""A model with a large embedding, as those of recommendations have, and its fit's clock."""

from collections.abc import Callable
from typing import Any

import keras
import numpy as np
import texts as measured

NUM_ROWS, WIDTH, ROWS_AN_EXAMPLE = 2_000_000, 16, 8
BATCH_SIZE = 32


class MiddleEpoch(keras.callbacks.Callback):
    """Times the second of three epochs, after tracing and before the end."""

    def __init__(self, examples: int) -> None:
        super().__init__()
        self.examples = examples

    def on_epoch_begin(self, epoch: int, logs: object = None) -> None:
        """Starts the clock."""
        del logs
        if epoch == 1:
            self.clock = measured.Clock()

    def on_epoch_end(self, epoch: int, logs: object = None) -> None:
        """Prints what was measured."""
        del logs
        if epoch == 1:
            self.clock.report("examples", self.examples)


def run(fit: Callable[..., Any]) -> None:
    """Trains by plain SGD, which moves the rows alone that a batch looked up."""
    steps = measured.parse().steps
    model = keras.Sequential(
        [
            keras.Input([ROWS_AN_EXAMPLE], dtype="int32"),
            keras.layers.Embedding(NUM_ROWS, WIDTH),
            keras.layers.Flatten(),
            keras.layers.Dense(1),
        ]
    )
    model.compile("sgd", "mse")
    shape = steps * BATCH_SIZE, ROWS_AN_EXAMPLE
    examples = np.random.default_rng(0).integers(0, NUM_ROWS, shape).astype("int32")
    targets = np.zeros([len(examples), 1], "float32")
    callbacks = [MiddleEpoch(len(examples))]
    fit(model, examples, targets, epochs=3, verbose=0, callbacks=callbacks)
