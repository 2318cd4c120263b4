"""`ValueTree`: named values, some of them trees again, that can be compared, copied and locked.

It knows nothing of classes of configs and of what their fields may hold: `base_config.Config` adds
that. What converts values stands between the two.
"""

import copy
import enum
import os
from collections.abc import Iterator
from typing import Any, ClassVar, Self

from quintain import errors
from quintain.config import frozen


class ValueTree:
    """Named values; those whose names begin with an underscore are the tree's own."""

    _locked: bool
    _deleted: frozenset[str]

    _may_be_none: ClassVar[bool] = False
    """Whether a field of this class may be None without saying so."""

    _open_cls: ClassVar[type["ValueTree"]]
    """The class of a tree that takes any names: `Config` by itself, which puts itself here."""

    def __delattr__(self, name: str) -> None:
        self._check_unlocked(name)
        if name.startswith("_") or name not in vars(self):
            raise AttributeError(f"{type(self).__name__} has no field {errors.show(name)}.")
        del vars(self)[name]
        vars(self)["_deleted"] = self._deleted | {name}

    def __getattribute__(self, name: str) -> Any:
        # The default of a deleted field is an attribute of the class still, and shared.
        if not name.startswith("_") and name in self._deleted and name not in vars(self):
            raise AttributeError(f"{type(self).__name__}.{name} was deleted.")
        return super().__getattribute__(name)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        known = [key for key in vars(self) if not key.startswith("_")]
        raise AttributeError(
            f"{type(self).__name__} has no field {errors.show(name)}.{errors.suggest(name, known)}"
        )

    def __contains__(self, name: str) -> bool:
        return not name.startswith("_") and name in vars(self)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, ValueTree) or type(self) is not type(other):
            return NotImplemented
        return dict(self._items()) == dict(other._items())

    def __hash__(self) -> int:
        return refuse_to_hash(self)

    def __repr__(self) -> str:
        values = ", ".join(f"{name}={errors.show(value)}" for name, value in self._items())
        return f"{type(self).__name__}({values})"

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        duplicate = object.__new__(type(self))
        vars(duplicate).update(
            {name: _copy_value(value, memo) for name, value in vars(self).items()}
        )
        return duplicate

    def get(self, key: str, value: Any = None) -> Any:
        """Returns the value of a field, or `value` if there is none of this name."""
        return vars(self).get(key, value) if key in self else value

    def as_dict(self) -> dict[str, Any]:
        """Returns the config and all below it as plain dictionaries, lists and scalars."""
        return {name: to_plain(value) for name, value in self._items()}

    def lock(self) -> None:
        """Makes this config and all below it read-only."""
        self._set_locked(True)

    @property
    def is_locked(self) -> bool:
        """True if the config is read-only."""
        return bool(self._locked)

    def _items(self) -> Iterator[tuple[str, Any]]:
        return ((name, value) for name, value in vars(self).items() if not name.startswith("_"))

    def _children(self) -> Iterator[tuple[str, "ValueTree"]]:
        for name, value in self._items():
            yield from _find_trees(name, value)

    def _walk(self) -> Iterator["ValueTree"]:
        yield self
        for _, child in self._children():
            yield from child._walk()

    def _set_locked(self, is_locked: bool) -> None:
        for config in list(self._walk()):
            vars(config)["_locked"] = is_locked
            for name, value in list(config._items()):
                if isinstance(value, list | tuple | dict):
                    vars(config)[name] = frozen.freeze(value) if is_locked else frozen.thaw(value)

    def _check_unlocked(self, name: str) -> None:
        if self._locked:
            raise errors.ConfigError(
                f"{name}: {type(self).__name__} is locked; use `replace` to get a changed copy."
            )


def _find_trees(path: str, value: Any) -> Iterator[tuple[str, ValueTree]]:
    if isinstance(value, ValueTree):
        yield path, value
    elif isinstance(value, list | tuple):
        for index, part in enumerate(value):
            yield from _find_trees(f"{path}[{index}]", part)
    elif isinstance(value, dict):
        for key, part in value.items():
            yield from _find_trees(f"{path}.{key}", part)


def to_plain(value: Any) -> Any:
    """Returns a value with all trees in it as dictionaries, and all scalars as plain ones."""
    if isinstance(value, ValueTree):
        return value.as_dict()
    if isinstance(value, tuple):
        return tuple(to_plain(part) for part in value)
    if isinstance(value, list):
        return [to_plain(part) for part in value]
    if isinstance(value, dict):
        return {key: to_plain(part) for key, part in value.items()}
    return to_plain_scalar(value)


def _copy_value(value: Any, memo: dict[int, Any]) -> Any:
    if isinstance(value, ValueTree | list | dict | tuple):
        return copy.deepcopy(value, memo)
    return value


def to_plain_scalar(value: Any) -> Any:
    """Returns the value of an enum member or of NumPy's scalars, and a path as a string.

    Anything else is returned as it is.
    """
    if isinstance(value, enum.Enum):
        return value.value
    return os.fspath(value) if isinstance(value, os.PathLike) else unwrap_number(value)


def unwrap_number(value: Any) -> Any:
    """Returns Python's number for one of NumPy, and anything else as it is."""
    is_numpy = type(value).__module__ == "numpy" and getattr(value, "shape", None) == ()
    return value.item() if is_numpy else value


def refuse_to_hash(tree: ValueTree) -> int:
    """Raises what `hash` of a list does; dataclasses still take such instances as defaults."""
    raise TypeError(f"unhashable type: {errors.show(type(tree).__name__)}")
