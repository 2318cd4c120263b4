"""Registries in plain dictionaries, whose keys are paths such as `models/bert/small`.

The package's own registries are `exp_factory` and `task_factory`.
"""

from collections.abc import Callable, Mapping, MutableMapping
from typing import Any, TypeVar

from quintain import errors

T = TypeVar("T")


def register(registered_collection: MutableMapping[Any, Any], reg_key: Any) -> Callable[[T], T]:
    """Returns a decorator that puts what it decorates into a dictionary.

    Args:
        registered_collection: The dictionary. Parts of a key lead into dictionaries inside it,
            which are made where there are none.
        reg_key: The key; a string is a path with `/` between its parts.

    Raises:
        RegistryError: When decorating, if the key is taken, or a part of it before the last.

    Example:
        >>> models = {}
        >>> @register(models, "bert/small")
        ... def build_small(): ...
        >>> list(models["bert"])
        ['small']
        >>> lookup(models, "bert/small") is build_small
        True
    """

    def decorate(found: T) -> T:
        *heads, last = reg_key.split("/") if isinstance(reg_key, str) else [reg_key]
        collection = registered_collection
        for place, head in enumerate(heads):
            collection = collection.setdefault(head, {})
            if not isinstance(collection, MutableMapping):
                raise errors.RegistryError(
                    f"{reg_key!r}: {'/'.join(heads[: place + 1])!r} is registered already, as "
                    f"{collection!r}; nothing can be registered below it."
                )
        if last in collection:
            raise errors.RegistryError(
                f"{reg_key!r} is registered already, as {collection[last]!r}; it can't be "
                f"registered again, as {found!r}."
            )
        collection[last] = found
        return found

    return decorate


def lookup(registered_collection: Mapping[Any, Any], reg_key: Any) -> Any:
    """Returns what is registered under a key.

    Args:
        registered_collection: The dictionary.
        reg_key: The key; a string is a path with `/` between its parts.

    Raises:
        RegistryError: If nothing is; the message names the nearest key and all of its dictionary.
    """
    found: Any = registered_collection
    parts = reg_key.split("/") if isinstance(reg_key, str) else [reg_key]
    for place, part in enumerate(parts):
        if not isinstance(found, Mapping) or part not in found:
            known = list(found) if isinstance(found, Mapping) else []
            names = [name for name in known if isinstance(name, str)]
            hint = errors.suggest(part, names) if isinstance(part, str) else ""
            head = "/".join(map(str, parts[:place]))
            below = f" below {head!r}" if head else ""
            raise errors.RegistryError(
                f"{reg_key!r} was never registered: there is no {part!r}{below}.{hint} Known: "
                f"{', '.join(map(repr, known)) or 'none'}. Import the module that registers it."
            )
        found = found[part]
    return found
