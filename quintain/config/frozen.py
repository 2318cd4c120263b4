"""Immutable lists and dictionaries of locked configs."""

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


class NamedDict(dict[Any, Any]):
    """A dictionary whose values are attributes too, as in the reference, where it is a config.

    Example:
        >>> sizes = NamedDict({"width": 8})
        >>> sizes.width, sizes["width"], sizes.as_dict()
        (8, 8, {'width': 8})
    """

    def __getattr__(self, name: str) -> Any:
        if name in self:
            return self[name]
        raise AttributeError(
            f"there is no {errors.show(name)}.{errors.suggest(name, map(str, self))}"
        )

    def __setattr__(self, name: str, value: Any) -> None:
        self[name] = value

    def as_dict(self) -> dict[Any, Any]:
        """Returns an ordinary dictionary, and so for all in it."""
        return {
            key: part.as_dict() if isinstance(part, NamedDict) else part
            for key, part in self.items()
        }


class FrozenDict(NamedDict):
    """A dictionary that can't be changed."""

    update = setdefault = pop = popitem = clear = _refuse
    __setitem__ = __delitem__ = __ior__ = __setattr__ = _refuse

    def __reduce_ex__(self, protocol: Any) -> Any:
        """Copies and pickles as a whole, because items can't be added one by one."""
        del protocol
        return FrozenDict, (dict(self),)


def freeze(value: Any) -> Any:
    """Returns `value` with all lists and dictionaries in it as ones that can't be changed."""
    return _rebuild(value, FrozenList, FrozenDict)


def thaw(value: Any) -> Any:
    """Returns a copy of `value` with all lists and dictionaries in it as ordinary ones."""
    return _rebuild(value, list, NamedDict)


def _rebuild(value: Any, list_cls: type[list[Any]], dict_cls: type[dict[Any, Any]]) -> Any:
    if isinstance(value, dict):
        return dict_cls({key: _rebuild(part, list_cls, dict_cls) for key, part in value.items()})
    if isinstance(value, list | tuple):
        parts = [_rebuild(part, list_cls, dict_cls) for part in value]
        return tuple(parts) if isinstance(value, tuple) else list_cls(parts)
    return value
