"""Registers classes with Keras, which saves and loads optimizers and schedules by their names."""

from typing import Any, Final, TypeVar

import keras

from quintain import errors

C = TypeVar("C", bound=type)

_PACKAGE: Final = "quintain"


def register(cls: C) -> C:
    """Registers a class as `quintain>NAME`.

    Keras lets the second class of a name take it from the first, and then loads what was saved of
    one as the other. A module that is loaded anew brings the same class again.

    Raises:
        RegistryError: If another class has the name.
    """
    known = keras.saving.get_registered_object(f"{_PACKAGE}>{cls.__name__}")
    if known is not None and _get_home(known) != _get_home(cls):
        raise errors.RegistryError(
            f"Keras saves {_get_home(known)} under the name {cls.__name__!r} already; "
            f"{_get_home(cls)} needs another name."
        )
    registered: C = keras.saving.register_keras_serializable(_PACKAGE)(cls)
    return registered


def _get_home(value: Any) -> str:
    return f"{value.__module__}.{value.__qualname__}"
