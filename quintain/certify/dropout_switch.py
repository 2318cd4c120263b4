"""Switch of all dropout of a process, of `tf.nn`, of Keras 2 and of Keras 3."""

import contextlib
import dataclasses
import functools
from collections.abc import Iterator
from typing import Any, Final

import tensorflow as tf
from tensorflow.python.ops import nn_ops

_NAME: Final = "_dropout"
"""The one function that all of them end in."""


@dataclasses.dataclass
class _Switch:
    is_off: bool = False
    rates: list[float] | None = None


_SWITCH: Final = _Switch()


def install() -> None:
    """Puts the switch in front of TensorFlow's dropout; it is on."""
    former = vars(nn_ops)[_NAME]

    @functools.wraps(former)
    def drop(*args: Any, **kwargs: Any) -> Any:
        rate = kwargs["rate"]
        if _SWITCH.rates is not None and tf.get_static_value(rate) is not None:
            _SWITCH.rates.append(float(tf.get_static_value(rate)))
        if _SWITCH.is_off:
            return tf.convert_to_tensor(kwargs["x"])
        return former(*args, **kwargs)

    vars(nn_ops)[_NAME] = drop


@contextlib.contextmanager
def dropout_off(*, is_off: bool = True) -> Iterator[list[float]]:
    """Lets values through; gives the rates by which they are dropped or would be."""
    former = (_SWITCH.is_off, _SWITCH.rates)
    _SWITCH.is_off, _SWITCH.rates = is_off, []
    try:
        yield _SWITCH.rates
    finally:
        _SWITCH.is_off, _SWITCH.rates = former
