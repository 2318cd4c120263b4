"""Adapter that runs the real `tensorflow-estimator` 2.15 on TensorFlow 2.21, as `tf.estimator`.

TensorFlow removed what it had for this package: the names by which its API is registered, the
module of the distribution coordinator, and parts of its TPU support.
"""

import functools
import importlib
import importlib.util
import sys
import types
from typing import Any, Final

import tensorflow as tf
from tensorflow.python.util import tf_export

from quintain import errors
from quintain.trials.older import tf1_mode

_API: Final = "tensorflow_estimator.python.estimator.api._v1.estimator"
_NAME: Final = "estimator"
_COORDINATOR: Final = "tensorflow.python.distribute.estimator_training"
_TPU_PARTS: Final = (
    "tensorflow.python.tpu.tpu_embedding",
    "tensorflow.python.tpu.session_support",
    "tensorflow.python.tpu.tpu_embedding_gradient",
)

_GONE: Final = {
    "BoostedTrees": (
        "TensorFlow has removed boosted trees; 2.12 and later have none. What is left are those of "
        "TensorFlow Decision Forests (`tfdf.keras.GradientBoostedTreesModel`) or YDF, "
        "which are no estimators; of estimators, `DNNClassifier` and `DNNRegressor` take the same "
        "feature columns."
    ),
    "RNN": "write a model_fn with `tf.nn.dynamic_rnn` and `tf.estimator.Estimator`.",
    "SVM": "use `LinearClassifier`.",
    "TPU": "TensorFlow removed its support of estimators on TPUs; use `Estimator`.",
}
"""Beginnings of names that went, and what is to be said of them."""


@functools.cache
def load() -> Any:
    """Puts `tf.estimator` into its place and returns it. It can't be undone.

    Raises:
        TrialError: If the packages are not installed.
    """
    for package in ("tensorflow_estimator", "tf_keras"):
        if importlib.util.find_spec(package) is None:
            raise errors.TrialError(
                f"tf.estimator needs the package {package}: pip install 'quintain[estimator]'"
            )
    tf1_mode.enable()
    _register_api()
    _add_module(_COORDINATOR, _Coordinator(_COORDINATOR))
    for name in _TPU_PARTS:
        _add_module(name, _Placeholder(name))
    module = importlib.import_module(_API)
    # TensorFlow wraps modules in another one, which asks the first.
    vars(getattr(module, "_tfmw_wrapped_module", module))["__getattr__"] = _refuse_name
    for owner in (tf, tf.compat.v1):
        # The modules' own `__setattr__` does more than to set a name.
        vars(owner)[_NAME] = module
    return module


class MissingNameError(errors.TrialError, AttributeError):
    """Raised for a name that `tf.estimator` does not have any more."""


def _refuse_name(name: str) -> Any:
    """Says why there is no such name, and what to use instead."""
    if name.startswith("__"):
        raise AttributeError(name)
    advice = next((text for start, text in _GONE.items() if name.startswith(start)), "")
    if not advice:
        known = [one for one in dir(importlib.import_module(_API)) if not one.startswith("_")]
        advice = f"tensorflow-estimator 2.15 does not have it.{errors.suggest(name, known)}"
    raise MissingNameError(f"tf.estimator.{name} can't be had: {advice}")


class _Coordinator(types.ModuleType):
    """Stub of the coordinator of distributed training, which no trial uses."""

    def should_run_distribute_coordinator(self, config: Any) -> bool:
        """Returns False: a trial has one process."""
        del config
        return False


class _Placeholder(types.ModuleType):
    """Placeholder of a module that was removed; its names are classes that can't be used."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return type(name, (_Removed,), {})


class _Removed:
    def __init__(self, *args: Any, **kwargs: Any) -> None:
        del args, kwargs
        raise errors.TrialError(
            f"{type(self).__name__} can't be had: TensorFlow removed its support of estimators on "
            "TPUs."
        )


def _register_api() -> None:
    tf_export.ESTIMATOR_API_NAME = _NAME
    for table, suffix in ((tf_export.API_ATTRS, ""), (tf_export.API_ATTRS_V1, "_v1")):
        kind = type(table[tf_export.TENSORFLOW_API_NAME])
        table[_NAME] = kind(f"_{_NAME}_api_names{suffix}", f"_{_NAME}_api_constants{suffix}")


def _add_module(name: str, module: types.ModuleType) -> None:
    if importlib.util.find_spec(name) is not None:
        return
    sys.modules[name] = module
    parent, _, leaf = name.rpartition(".")
    setattr(importlib.import_module(parent), leaf, module)
