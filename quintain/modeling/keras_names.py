"""Names of `keras` that `tf.keras` lacks and programs use."""

import importlib
from typing import Final

import keras
import tensorflow as tf

_NAMES: Final = (
    "kl_divergence",
    "log_cosh",
    "mean_absolute_error",
    "mean_absolute_percentage_error",
    "mean_squared_error",
    "mean_squared_logarithmic_error",
)


def complete() -> None:
    """Adds functions of losses to `tf.keras.losses` and `tf.keras.metrics`, if they are not there.

    Example:
        >>> complete()
        >>> tf.keras.losses.mean_squared_error is keras.losses.mean_squared_error
        True
    """
    for part in ("losses", "metrics"):
        source = getattr(keras, part)
        # Two modules: that of the attribute, and that of `import tensorflow.keras.losses`.
        imported = importlib.import_module(f"tensorflow.keras.{part}")
        for target in (getattr(tf.keras, part), imported):  # noqa: TID251 - what users write
            for name in _NAMES:
                if not hasattr(target, name):
                    setattr(target, name, getattr(source, name))
