"""Keras 2 interface of Keras 3 optimizers: `lr` and `decay`."""

import functools
from typing import Any, Final

import keras
from keras.src.optimizers import base_optimizer

_LEGACY: Final = ("Adagrad", "Adam", "Ftrl", "Optimizer", "RMSprop", "SGD")
"""What `keras.optimizers.legacy` had, of which Keras 3 has no more than a message."""

_Base: Final[Any] = base_optimizer.BaseOptimizer


@functools.cache
def enable() -> None:
    """Makes all optimizers take `lr` and `decay`, and have `lr`; it stays.

    With `decay`, the rate of a step is the one that was set, by callbacks, too, divided by
    `1 + decay * step`.
    """
    _Base._former_decay = 0.0
    _Base.__init__ = _take_former_arguments(_Base.__init__)
    _Base.get_config = _tell_decay(_Base.get_config)
    _Base.lr = property(lambda self: self.learning_rate, _set_rate)
    keras.optimizers.Optimizer._backend_update_step = _decay_rate(
        keras.optimizers.Optimizer._backend_update_step
    )
    for name in _LEGACY:
        vars(keras.optimizers.legacy)[name] = getattr(keras.optimizers, name)


def _take_former_arguments(init: Any) -> Any:
    """Returns the `__init__` of optimizers that also takes `lr` and `decay`."""

    @functools.wraps(init)
    def take(self: Any, *args: Any, **kwargs: Any) -> None:
        former, decay = kwargs.pop("lr", None), kwargs.pop("decay", None)
        if former is not None:
            kwargs["learning_rate"] = former
            args = args[1:]  # The rate, which all optimizers give on first: here their default.
        init(self, *args, **kwargs)
        self._former_decay = float(decay or 0.0)

    return take


def _set_rate(self: Any, rate: Any) -> None:
    self.learning_rate = rate


def _decay_rate(update_step: Any) -> Any:
    """Returns the step of all variables that divides its rate by what `decay` says."""

    @functools.wraps(update_step)
    def update(self: Any, grads: Any, trainable_variables: Any, learning_rate: Any) -> None:
        if self._former_decay:
            steps = keras.ops.cast(self._iterations, "float32")
            learning_rate = learning_rate / (1.0 + self._former_decay * steps)
        update_step(self, grads, trainable_variables, learning_rate)

    return update


def _tell_decay(get_config: Any) -> Any:
    """Returns a `get_config` from which Keras itself, which has no `decay`, makes the same."""

    @functools.wraps(get_config)
    def tell(self: Any) -> dict[str, Any]:
        config: dict[str, Any] = get_config(self)
        if self._former_decay and isinstance(config["learning_rate"], float):
            schedule = keras.optimizers.schedules.InverseTimeDecay(
                config["learning_rate"], 1, self._former_decay
            )
            config["learning_rate"] = keras.optimizers.schedules.serialize(schedule)
        return config

    return tell
