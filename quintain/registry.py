"""Registry of named implementations of one kind of thing."""

import contextlib
import dataclasses
from collections.abc import Callable, Hashable, Iterator
from typing import Any, Generic, TypeVar

from quintain import errors

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")
W = TypeVar("W")


class Registry(Generic[K, V]):
    """Named implementations of one kind of thing.

    Example:
        >>> schedules = Registry[str, type]("learning-rate schedule")
        >>> @schedules.register("cosine")
        ... class Cosine: ...
        >>> schedules.lookup("cosine") is Cosine
        True
        >>> schedules.lookup("cosin")
        Traceback (most recent call last):
            ...
        quintain.errors.RegistryError: Unknown learning-rate schedule 'cosin'. \
Did you mean 'cosine'? Known: 'cosine'.
    """

    def __init__(self, kind: str) -> None:
        """Creates an empty registry.

        Args:
            kind: What is registered, in words, for error messages.
        """
        self._kind = kind
        self._entries: dict[K, V | _Later] = {}

    def register(self, key: K) -> Callable[[W], W]:
        """Returns a decorator that registers what it decorates under `key`.

        Raises:
            RegistryError: When decorating, if the key is taken.
        """

        def decorate(value: W) -> W:
            if key in self._entries:
                raise errors.RegistryError(
                    f"The {self._kind} {_show(key)} is registered already, as "
                    f"{self.lookup(key)!r}; it can't be registered again, as {value!r}."
                )
            self._entries[key] = value  # type: ignore[assignment]  # a decorator keeps the exact type
            return value

        return decorate

    def register_later(self, key: K, load: Callable[[], V]) -> None:
        """Registers, under `key`, what a function returns when it is first looked up.

        Raises:
            RegistryError: If the key is taken.
        """
        self.register(key)(_Later(load))

    def lookup(self, key: K, *, advice: str = "") -> V:
        """Returns what is registered under `key`.

        Args:
            key: The key.
            advice: What to do about a missing one; ends the message.

        Raises:
            RegistryError: If nothing is; the message names the nearest and all known keys.
        """
        if key in self._entries:
            found = self._entries[key]
            if isinstance(found, _Later):
                found = self._entries[key] = found.load()
            return found
        known = sorted(_show(name) for name in self._entries)
        hint = ""
        if isinstance(key, str):
            names = [name for name in self._entries if isinstance(name, str)]
            below = [name for name in names if name.startswith(f"{key.rstrip('/')}/")]
            hint = f" Did you mean {below[0]!r}?" if below else errors.suggest(key, names)
        raise errors.RegistryError(
            f"Unknown {self._kind} {_show(key)}.{hint} Known: {', '.join(known) or 'none'}."
            f"{' ' if advice else ''}{advice}"
        )

    def __getitem__(self, key: K) -> V:
        return self.lookup(key)

    def keys(self) -> list[K]:
        """Returns all registered keys, in the order of registration."""
        return list(self._entries)

    def __contains__(self, key: object) -> bool:
        return key in self._entries

    @contextlib.contextmanager
    def temporarily(self) -> Iterator[None]:
        """Forgets, at the end of the context, all that was registered inside it."""
        former = dict(self._entries)
        try:
            yield
        finally:
            self._entries = former


@dataclasses.dataclass(frozen=True)
class _Later:
    """Entry that is loaded when it is looked up."""

    load: Callable[[], Any]


def _show(key: object) -> str:
    return key.__qualname__ if isinstance(key, type) else repr(key)
