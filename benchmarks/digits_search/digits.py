"""Data and model of the search benchmark: what every peer trains."""

from collections.abc import Callable
from typing import Any

import keras
import numpy as np
import tensorflow as tf
from sklearn import datasets

RUNGS = (40, 160, 640)
"""Batches after which a trial is validated and may be stopped."""

REDUCTION_FACTOR = 4
"""One of so many trials goes on after each rung."""

LEARNING_RATE = (1e-4, 1e-1)
"""Range of the learning rate, searched on a logarithmic scale."""

UNITS = (16, 128)
"""Range of the width of the hidden layer."""

DROPOUT = (0.0, 0.5)
"""Range of the dropout rate."""


def load_digits() -> tuple[tf.data.Dataset, tf.data.Dataset]:
    """Returns training and validation data in batches: 1,437 and 360 images of 64 pixels."""
    digits = datasets.load_digits()
    order = np.random.RandomState(0).permutation(len(digits.target))
    images, labels = digits.data[order].astype("float32") / 16, digits.target[order]
    train = tf.data.Dataset.from_tensor_slices((images[:1437], labels[:1437]))
    test = tf.data.Dataset.from_tensor_slices((images[1437:], labels[1437:]))
    return train.shuffle(1437, seed=0).batch(32), test.batch(360)


def build_model(hparams: dict[str, Any]) -> keras.Model:
    """Returns the compiled network of one trial."""
    model = keras.Sequential(
        [
            keras.layers.Input((64,)),
            keras.layers.Dense(hparams["units"], activation="relu"),
            keras.layers.Dropout(hparams["dropout"]),
            keras.layers.Dense(10),
        ]
    )
    model.compile(
        optimizer=keras.optimizers.Adam(hparams["learning_rate"]),
        loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        metrics=["accuracy"],
    )
    return model


class Rungs(keras.callbacks.Callback):
    """Validates at every rung of one long `fit` and tells the search."""

    def __init__(self, test: tf.data.Dataset, report: Callable[[int, float, float], None]) -> None:
        """Stores the data to validate on and what to call with batches, loss and accuracy."""
        super().__init__()
        self._test = test
        self._report = report

    def on_epoch_end(self, epoch: int, logs: dict[str, float] | None = None) -> None:
        """Reports where the number of batches is one of the rungs."""
        batches = (epoch + 1) * RUNGS[0]
        if batches in RUNGS:
            loss, accuracy = self.model.evaluate(self._test, verbose=0)
            self._report(batches, loss, accuracy)


def fit(hparams: dict[str, Any], report: Callable[[int, float, float], None]) -> None:
    """Trains one trial to the last rung, or until `report` raises an exception."""
    tf.config.threading.set_intra_op_parallelism_threads(1)
    tf.config.threading.set_inter_op_parallelism_threads(1)
    train, test = load_digits()
    build_model(hparams).fit(
        train.repeat(),
        steps_per_epoch=RUNGS[0],
        epochs=RUNGS[-1] // RUNGS[0],
        callbacks=[Rungs(test, report)],
        verbose=0,
    )
