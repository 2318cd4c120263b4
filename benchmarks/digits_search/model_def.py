"""The trial of the search benchmark, as Quintain runs it."""

from collections.abc import Mapping
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


def make_data_loaders(
    experiment_config: Mapping[str, Any], hparams: Mapping[str, Any]
) -> tuple[tf.data.Dataset, tf.data.Dataset]:
    """Returns training and validation images, which the peers load once for a trial as well."""
    del experiment_config, hparams
    return digits.load_digits()
