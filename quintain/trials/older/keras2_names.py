"""Keras 2 interface of Keras 3, for a trial's own process.

Everything here adds: names that Keras 3 and TensorFlow 2 have are left as they are. Nothing can be
undone, so that it is called in processes of trials only.
"""

import functools
import importlib
import importlib.abc
import importlib.machinery
import importlib.util
import sys
import types
from collections.abc import Iterator, Sequence
from typing import Any, Final

import keras
import tensorflow as tf
from keras.src.trainers import compile_utils, trainer

from quintain.trials.older import keras2_optimizers

_COMPLETE: Final = "keras._tf_keras.keras"
"""Keras with the names that it keeps only as `tf.keras`."""

_BACKENDS: Final = ("keras.backend", f"{_COMPLETE}.backend")

_PARTS: Final = (
    "backend",
    "layers",
    "losses",
    "metrics",
    "preprocessing.image",
    "preprocessing.sequence",
    "preprocessing.text",
)

_HOMES: Final = {
    "keras.callbacks.callbacks": "keras.callbacks",
    "keras.backend.tensorflow_backend": f"{_COMPLETE}.backend",
    "keras.engine": "keras.layers",
    "keras.engine.base_layer": "keras.layers",
    "keras.engine.topology": "keras.layers",
    "keras.engine.training": "keras.models",
    "keras.layers.advanced_activations": "keras.layers",
    "keras.layers.convolutional": "keras.layers",
    "keras.layers.convolutional_recurrent": "keras.layers",
    "keras.layers.core": "keras.layers",
    "keras.layers.embeddings": "keras.layers",
    "keras.layers.merge": "keras.layers",
    "keras.layers.noise": "keras.layers",
    "keras.layers.normalization": "keras.layers",
    "keras.layers.pooling": "keras.layers",
    "keras.layers.recurrent": "keras.layers",
    "keras.layers.wrappers": "keras.layers",
    "keras.preprocessing.text": f"{_COMPLETE}.preprocessing.text",
    "keras.utils.data_utils": "keras.utils",
    "keras.utils.generic_utils": "keras.utils",
    "keras.utils.io_utils": "keras.utils",
    "keras.utils.np_utils": "keras.utils",
    "keras.utils.vis_utils": "keras.utils",
}
"""Modules of Keras 2, and where their names are today. `tensorflow.keras` has the same."""

_ROOTS: Final = ("keras.", "tensorflow.keras.", "tensorflow.python.keras.")


@functools.cache
def enable() -> None:
    """Adds the names of Keras 2 to Keras, and those of TensorFlow 1 to TensorFlow."""
    for target, name, former in find_former():
        vars(target).setdefault(name, former)
    keras2_optimizers.enable()
    _let_backend_take_variables()
    trainer.Trainer.compile = _take_former_order(trainer.Trainer.compile)
    compile_utils.CompileLoss.call = _take_named_weights(compile_utils.CompileLoss.call)
    sys.meta_path.append(_Finder())


@functools.cache
def find_former() -> tuple[tuple[Any, str, Any], ...]:
    """Returns modules, names that they lack and what former versions have by them.

    Most of the time is spent here, as this imports all of TensorFlow 1's names, and adds none: a
    process whose copies become trials may call it.
    """
    found: list[tuple[Any, str, Any]] = []
    for part in _PARTS:
        try:
            present = importlib.import_module(f"keras.{part}")
        except ModuleNotFoundError:
            continue
        source = importlib.import_module(f"{_COMPLETE}.{part}")
        found += ((present, name, getattr(source, name)) for name in _find_lacks(present, source))
    return (*found, *_find_version_1(tf, tf.compat.v1))


def _find_lacks(target: types.ModuleType, source: types.ModuleType) -> Iterator[str]:
    return (name for name in dir(source) if not name.startswith("_") and not hasattr(target, name))


def _add_names(target: types.ModuleType, source: types.ModuleType) -> None:
    for name in _find_lacks(target, source):
        vars(target)[name] = getattr(source, name)


def _find_version_1(target: Any, source: Any) -> Iterator[tuple[Any, str, Any]]:
    """Yields what TensorFlow 1 has and 2 does not, also in modules that both have."""
    for name in dir(source):
        if name.startswith("_") or name in ("compat", "estimator", "keras", "v1", "v2"):
            continue
        former, present = getattr(source, name, None), vars(target).get(name)
        if present is None and former is not None:
            yield target, name, former
        elif present is not former and isinstance(present, types.ModuleType):
            yield from _find_version_1(present, former)


def _let_backend_take_variables() -> None:
    """Makes functions such as `K.set_value` take Keras' variables, which were TensorFlow's."""
    owner = importlib.import_module("keras.src.legacy.backend")
    for name, function in list(vars(owner).items()):
        if isinstance(function, types.FunctionType) and function.__module__ == owner.__name__:
            replacement = _take_variables(function)
            for place in (owner, *map(importlib.import_module, _BACKENDS)):
                if getattr(place, name, None) is function:
                    setattr(place, name, replacement)


def _take_variables(function: Any) -> Any:
    @functools.wraps(function)
    def take(*args: Any, **kwargs: Any) -> Any:
        args, kwargs = keras.tree.map_structure(_unwrap, (args, kwargs))
        return function(*args, **kwargs)

    return take


def _unwrap(value: Any) -> Any:
    return value.value if isinstance(value, keras.Variable) else value


def _take_former_order(compile_model: Any) -> Any:
    """Returns a `compile` that also takes `(optimizer, loss, metrics, loss_weights)` by place."""

    @functools.wraps(compile_model)
    def take(self: Any, *args: Any, **kwargs: Any) -> None:
        if len(args) > 2 and not _are_numbers(args[2]):
            optimizer, loss, metrics, *rest = args
            names = ("loss_weights", "sample_weight_mode", "weighted_metrics")
            kwargs |= {"metrics": metrics, **dict(zip(names, rest, strict=False))}
            kwargs.pop("sample_weight_mode", None)
            args = (optimizer, loss)
        compile_model(self, *args, **kwargs)

    return take


def _take_named_weights(call: Any) -> Any:
    """Returns a sum of losses that takes weights of examples by the names of outputs in a list."""

    @functools.wraps(call)
    def take(self: Any, y_true: Any, y_pred: Any, sample_weight: Any = None) -> Any:
        names = self.output_names or []
        if isinstance(sample_weight, dict) and sample_weight.keys() <= set(names):
            if isinstance(y_pred, list | tuple):
                sample_weight = [sample_weight.get(name) for name in names]
            elif not isinstance(y_pred, dict):
                sample_weight = sample_weight.get(names[0])
        return call(self, y_true, y_pred, sample_weight)

    return take


def _are_numbers(values: Any) -> bool:
    """Returns whether these are weights of losses, the third argument today."""
    return all(isinstance(each, int | float) or each is None for each in tf.nest.flatten(values))


class _Loader(importlib.abc.Loader):
    """Loader that gives the module of today."""

    def __init__(self, home: str) -> None:
        self._home = home

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> types.ModuleType:
        module = types.ModuleType(spec.name)
        home = importlib.import_module(self._home)
        _add_names(module, home)
        return module

    def exec_module(self, module: types.ModuleType) -> None:
        module.__path__ = []  # What was below it is found by this finder, too.


class _Finder(importlib.abc.MetaPathFinder):
    """Import finder of modules of Keras 2 that nobody else has."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: Any = None
    ) -> importlib.machinery.ModuleSpec | None:
        root = next((each for each in _ROOTS if fullname.startswith(each)), None)
        if root is None:
            return None
        inner = fullname.removeprefix(root)
        home = _HOMES.get(f"keras.{inner}") or _find_inside(inner)
        return importlib.util.spec_from_loader(fullname, _Loader(home)) if home else None


def _find_inside(path: str) -> str | None:
    """Returns the module of that path which Keras has and does not offer; None if there is none."""
    try:
        spec = importlib.util.find_spec(f"keras.src.{path}")
    except ModuleNotFoundError:
        return None
    return None if spec is None else spec.name
