"""What a layer was made with, as its config tells it and as its parts need it."""

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
    object, are objects here.

    Example:
        >>> given = LayerArguments({"self": None, "units": 3, "kernel_initializer": "zeros"})
        >>> given.units, type(given.kernel_initializer).__name__
        (3, 'Zeros')
        >>> given.to_config()["units"]
        3
    """

    def __init__(self, given: Mapping[str, Any]) -> None:
        """Reads the arguments.

        Args:
            given: Arguments by name; `locals()` of the constructor, before it sets other names.
        """
        self._names = tuple(name for name in given if name not in _NOT_ARGUMENTS)
        for name in self._names:
            kind = _KINDS.get(name.rpartition("_")[2])
            value = given[name]
            setattr(self, name, value if kind is None or value is None else kind.get(value))

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(f"{name!r} is none of the layer's arguments.")

    def to_config(self) -> dict[str, Any]:
        """Returns the arguments as plain data, where they are objects of Keras."""
        return {name: self._describe(name) for name in self._names}

    def _describe(self, name: str) -> Any:
        value = getattr(self, name)
        kind = _KINDS.get(name.rpartition("_")[2])
        return value if kind is None or value is None else kind.serialize(value)

    def for_dense(self, *, has_activity: bool = True) -> dict[str, Any]:
        """Returns what a dense layer of the layer is made with, its own copies of initializers.

        Args:
            has_activity: Whether the layer's `activity_regularizer` is the dense layer's as well.
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
