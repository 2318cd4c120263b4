"""Lists and dictionaries of a locked config: they read as usual and refuse to be changed."""

from typing import Any, NoReturn

from quintain import errors


def _refuse(self: Any, *args: Any, **kwargs: Any) -> NoReturn:
    del args, kwargs
    raise errors.ConfigError(
        f"{list(self) if isinstance(self, list) else dict(self)!r} belongs to a locked config; use "
        "`replace` to get a changed copy of the config."
    )


class FrozenList(list[Any]):
    """A list that can't be changed.

    Example:
        >>> FrozenList([1, 2]).append(3)
        Traceback (most recent call last):
            ...
        quintain.errors.ConfigError: [1, 2] belongs to a locked config; \
use `replace` to get a changed copy of the config.
    """

    append = extend = insert = remove = pop = clear = sort = reverse = _refuse
    __setitem__ = __delitem__ = __iadd__ = __imul__ = _refuse

    def __reduce_ex__(self, protocol: Any) -> Any:
        """Copies and pickles as a whole, because elements can't be added one by one."""
        del protocol
        return FrozenList, (list(self),)


class FrozenDict(dict[Any, Any]):
    """A dictionary that can't be changed."""

    update = setdefault = pop = popitem = clear = _refuse
    __setitem__ = __delitem__ = __ior__ = _refuse

    def __reduce_ex__(self, protocol: Any) -> Any:
        """Copies and pickles as a whole, because items can't be added one by one."""
        del protocol
        return FrozenDict, (dict(self),)


def freeze(value: Any) -> Any:
    """Returns `value` with all lists and dictionaries in it as ones that can't be changed."""
    return _rebuild(value, FrozenList, FrozenDict)


def thaw(value: Any) -> Any:
    """Returns a copy of `value` with all lists and dictionaries in it as ordinary ones."""
    return _rebuild(value, list, dict)


def _rebuild(value: Any, list_cls: type[list[Any]], dict_cls: type[dict[Any, Any]]) -> Any:
    if isinstance(value, dict):
        return dict_cls({key: _rebuild(part, list_cls, dict_cls) for key, part in value.items()})
    if isinstance(value, list | tuple):
        parts = [_rebuild(part, list_cls, dict_cls) for part in value]
        return tuple(parts) if isinstance(value, tuple) else list_cls(parts)
    return value
