"""Constructor arguments of a layer, for its config and for its parts."""

import importlib
from collections.abc import Mapping
from typing import Any, Final

import keras

from quintain.modeling import tf_utils

_NOT_ARGUMENTS: Final = frozenset({"self", "cls", "kwargs", "__class__"})

_KINDS: Final = {
    "initializer": keras.initializers,
    "regularizer": keras.regularizers,
    "constraint": keras.constraints,
}
"""Last words of the names of arguments, and Keras' module that resolves and describes such."""

_DENSE: Final = tuple(
    f"{part}_{kind}" for part in ("kernel", "bias") for kind in _KINDS if kind != "initializer"
)


class LayerArguments:
    """The arguments of a layer's constructor, as attributes of the same names.

    Initializers, regularizers and constraints, which may be given by name, as a config or as an
    object, are objects here. So are classes of layers (`*_cls`), which configs give as
    `MODULE:CLASS`.

    Example:
        >>> given = LayerArguments({"self": None, "units": 3, "kernel_initializer": "zeros"})
        >>> given.units, type(given.kernel_initializer).__name__
        (3, 'Zeros')
        >>> given.to_config()["units"]
        3
    """

    def __init__(self, given: Mapping[str, Any]) -> None:
        """Reads `locals()` of a constructor, before it sets other names."""
        self._names = tuple(name for name in given if name not in _NOT_ARGUMENTS)
        for name in self._names:
            setattr(self, name, _resolve(name.rpartition("_")[2], given[name]))

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(f"{name!r} is none of the layer's arguments.")

    def to_config(self) -> dict[str, Any]:
        """Returns the arguments as plain data, where they are objects of Keras."""
        return {
            name: _describe(name.rpartition("_")[2], getattr(self, name)) for name in self._names
        }

    def for_dense(self, *, has_activity: bool = True) -> dict[str, Any]:
        """Returns what a dense layer of the layer is made with, its own copies of initializers.

        With `has_activity` the layer's `activity_regularizer` is the dense layer's as well.
        """
        shared = [*_DENSE, "activity_regularizer"] if has_activity else _DENSE
        options = {name: getattr(self, name) for name in shared if name in self._names}
        return {
            "kernel_initializer": tf_utils.clone_initializer(self.kernel_initializer),
            "bias_initializer": tf_utils.clone_initializer(self.bias_initializer),
            **options,
        }

    def are_unset(self, *names: str) -> bool:
        """Returns whether all of these are None."""
        return all(getattr(self, name) is None for name in names)


def _resolve(word: str, value: Any) -> Any:
    """Returns the object that an argument means, whose name ends by a word."""
    if value is None:
        return None
    if word == "cls" and isinstance(value, str):
        module, _, name = value.partition(":")
        return getattr(importlib.import_module(module), name)
    return _KINDS[word].get(value) if word in _KINDS else value


def _describe(word: str, value: Any) -> Any:
    """Returns what `_resolve` makes such an object of."""
    if value is None:
        return None
    if word == "cls":
        if isinstance(value, type):
            return f"{value.__module__}:{value.__qualname__}"
        is_layer = isinstance(value, keras.layers.Layer)
        return keras.saving.serialize_keras_object(value) if is_layer else value
    return _KINDS[word].serialize(value) if word in _KINDS else value
