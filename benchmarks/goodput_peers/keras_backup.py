"""Trains the Transformer of `training_step_peers` in `fit`, with `BackupAndRestore`, without end.

python keras_backup.py DIR [--steps-per-save=20]
"""

import pathlib
import sys
from typing import Any

import run_files

sys.path.append(str(pathlib.Path(__file__).parents[1] / "training_step_peers"))

import batches
import keras
import keras_run


class RecordSteps(keras.callbacks.Callback):
    """Writes a line after each step."""

    def __init__(self, record: run_files.Record) -> None:
        """Stores where the lines go."""
        super().__init__()
        self._record = record

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        """Writes the step, which a restart goes on from."""
        del batch, logs
        self._record.write(int(self.model.optimizer.iterations))


def main() -> None:
    """Trains, from the newest backup if there is one."""
    directory, steps = run_files.parse_arguments()
    keras.utils.set_random_seed(0)
    model = keras_run.build_model()
    optimizer = keras.optimizers.Adam(batches.SIZES.learning_rate, beta_2=0.98)
    model.compile(optimizer, loss=keras_run.smoothed_loss)
    data = keras_run.read_batches()

    def generate() -> Any:
        while True:
            yield from data

    callbacks = [
        keras.callbacks.BackupAndRestore(directory / "backup"),
        RecordSteps(run_files.Record(directory)),
    ]
    model.fit(generate(), steps_per_epoch=steps, epochs=10**9, verbose=0, callbacks=callbacks)


if __name__ == "__main__":
    main()
