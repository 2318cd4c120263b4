"""Which callbacks of Keras want to be called for each batch."""

from collections.abc import Iterable
from typing import Final

import keras

_TRAIN: Final = (
    "on_batch_begin",
    "on_batch_end",
    "on_train_batch_begin",
    "on_train_batch_end",
)
_TEST: Final = ("on_test_batch_begin", "on_test_batch_end")


def see_train_batches(callbacks: Iterable[keras.callbacks.Callback]) -> bool:
    """Whether one of them is to be called for each batch of training."""
    return any(_has(callback, _TRAIN) for callback in callbacks)


def see_test_batches(callbacks: Iterable[keras.callbacks.Callback]) -> bool:
    """Whether one of them is to be called for each batch of a validation."""
    return any(_has(callback, _TEST) for callback in callbacks)


def _has(callback: keras.callbacks.Callback, names: Iterable[str]) -> bool:
    """Whether its class overrides one of these methods, or the object has it, as lambdas do."""
    return any(
        getattr(getattr(callback, name), "__func__", None)
        is not getattr(keras.callbacks.Callback, name)
        for name in names
    )
