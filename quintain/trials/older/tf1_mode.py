"""TensorFlow 1 mode of a trial's own process.

Such code says `import tensorflow as tf` and then `tf.train.MomentumOptimizer`, `tf.ConfigProto` or
`tf.layers.dense`. All that TensorFlow 2 still has of it lies in `tf.compat.v1`.
"""

import functools
import importlib.util
import os
import types
import warnings
from typing import Any, Final

import tensorflow as tf

from quintain import errors
from quintain.trials.older import tf1_internals, tf1_optimizers

_LEFT_OUT: Final = frozenset({"compat", "contrib", "estimator", "keras", "lite", "v1", "v2"})
_LAZY: Final = ("keras", "losses", "metrics", "initializers", "optimizers")
_ADVICE: Final = "it needs Keras 2: pip install 'quintain[estimator]'"


@functools.cache
def enable() -> None:
    """Switches this process to graphs, and `tensorflow` to the names of TensorFlow 1.

    Where both have a name, that of TensorFlow 1 is meant; it takes the newer arguments as well.
    Names that only TensorFlow 2 has remain. `tf.layers`, `tf.nn.rnn_cell` and `tf.keras` are those
    of Keras 2, if it is installed. Optimizers of one's own may be those of TensorFlow 1. This can't
    be undone.
    """
    if importlib.util.find_spec("tf_keras") is not None:
        os.environ["TF_USE_LEGACY_KERAS"] = "1"
    warnings.filterwarnings("ignore", message=".*`tf.(layers|nn.rnn_cell).*deprecated.*")
    warnings.filterwarnings("ignore", message="To make it possible to preserve tf.data options")
    for name in _LAZY:
        dir(getattr(tf, name))  # loads it; it would later put itself back into its place
    v1 = tf.compat.v1
    v1.logging.set_verbosity(v1.logging.ERROR)
    v1.disable_v2_behavior()
    # They are read in the order of the program; the older ones leave it to chance.
    v1.enable_resource_variables()
    for name in dir(v1):
        if not name.startswith("_") and name not in _LEFT_OUT:
            # The module's own `__setattr__` does more than to set a name.
            vars(tf)[name] = _merge(f"tf.{name}", v1, getattr(tf, name, None), name)
    tf1_internals.enable()
    tf1_optimizers.enable()
    vars(tf)["contrib"] = _Missing(
        "tf.contrib", "it was removed from TensorFlow; its parts live on in packages of their own"
    )


class _Missing(types.ModuleType):
    """Placeholder of a part of TensorFlow that can't be had; its error says why."""

    def __init__(self, name: str, reason: str) -> None:
        super().__init__(name)
        self._reason = reason

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        raise errors.TrialError(f"{self.__name__}.{name} can't be had: {self._reason}.")


class _Merged(types.ModuleType):
    """The names of an older module, and those that only the newer one has."""

    def __init__(self, name: str, older: types.ModuleType, newer: Any) -> None:
        super().__init__(name)
        self._older = older
        self._newer = newer

    def __getattr__(self, name: str) -> Any:
        if name in dir(self._older):
            newer = getattr(self._newer, name, None)
            value = _merge(f"{self.__name__}.{name}", self._older, newer, name)
        else:
            value = getattr(self._newer, name)
        setattr(self, name, value)
        return value

    def __dir__(self) -> list[str]:
        return sorted({*dir(self._older), *dir(self._newer)})


def _merge(path: str, owner: types.ModuleType, newer: Any, name: str) -> Any:
    """Returns what a name of the older module is to mean."""
    try:
        older = getattr(owner, name)
    except (ImportError, AttributeError):
        return _Missing(path, _ADVICE)
    if isinstance(older, types.ModuleType) and newer is not None:
        return _Merged(path, older, newer)
    return older
