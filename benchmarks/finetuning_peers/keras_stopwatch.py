"""A clock that Keras' `fit` starts after its warm-up."""

import keras
import texts as measured


class Stopwatch(keras.callbacks.Callback):
    """Starts a clock after the warm-up."""

    def __init__(self, warmup: int) -> None:
        super().__init__()
        self.warmup = warmup

    def on_train_batch_end(self, batch: int, logs: object = None) -> None:
        """Sees the end of a step."""
        del logs
        if batch + 1 == self.warmup:
            self.clock = measured.Clock()
