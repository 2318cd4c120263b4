"""Finds out whether parts of a model are of classes of a user's own that compute otherwise.

What reads the weights of a part, instead of calling it, has to ask that first.
"""

import functools
from typing import Any, Final

_HARMLESS: Final = {"build", "get_config", "from_config", "compute_output_shape"}
_PACKAGE: Final = __name__.partition(".")[0]


def has_own(part: Any) -> bool:
    """Returns whether a layer, or one inside of it, computes what no class of the package does."""
    kinds: set[Any] = {type(one) for one in part._flatten_layers()}
    return any(map(_is_own, kinds))


def is_changed(part: Any, base: Any, *, but: str | None = None) -> bool:
    """Returns whether a part has methods of its own for what its base computes.

    Args:
        part: A layer or a model.
        base: A class of the package.
        but: A method that may be changed.
    """
    kind: Any = type(part)
    return bool(_list_changes(kind, base) - {but})


@functools.cache
def _is_own(kind: Any) -> bool:
    base = next((one for one in kind.__mro__ if _is_ours(one)), None)
    return base is None or bool(_list_changes(kind, base))


@functools.cache
def _list_changes(kind: Any, base: Any) -> frozenset[str]:
    """Returns the names of what a class computes otherwise."""
    if base not in kind.__mro__:
        return frozenset({"__call__"})
    known = {name for one in base.__mro__ if _is_ours(one) for name in vars(one)}
    own = {name for one in kind.__mro__[: kind.__mro__.index(base)] for name in vars(one)}
    inside = {name for name in known if not name.startswith("__")} | {"call", "__call__"}
    return frozenset(own & inside - _HARMLESS)


def _is_ours(kind: Any) -> bool:
    return kind.__module__.partition(".")[0] == _PACKAGE
