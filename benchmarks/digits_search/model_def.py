"""The trial of the search benchmark, as Quintain runs it."""

from typing import Any

import digits
import keras
import tensorflow as tf

from quintain.trials import KerasTrial


class DigitsTrial(KerasTrial):
    """Trains the network of `digits.py`."""

    def build_model(self, hparams: dict[str, Any]) -> keras.Model:
        """Returns the compiled network."""
        return digits.build_model(hparams)

    def build_training_data_loader(self) -> tf.data.Dataset:
        """Returns the training images."""
        return digits.load_digits()[0]

    def build_validation_data_loader(self) -> tf.data.Dataset:
        """Returns the validation images."""
        return digits.load_digits()[1]
