"""Provenance of config fields by layer, and differences between configs."""

import dataclasses
import enum
import math
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final


@dataclasses.dataclass(frozen=True)
class Source:
    """Origin of a value."""

    kind: str
    """`factory`, `file`, `override` or `gin`."""

    detail: str
    """The experiment, the file with its line, or the flag."""

    def __str__(self) -> str:
        return f"{self.kind} {self.detail}" if self.kind == "factory" else self.detail


class _Missing(enum.Enum):
    MISSING = "(absent)"

    def __repr__(self) -> str:
        return self.value


MISSING: Final = _Missing.MISSING
"""Stands for the value of a field that one of two configs does not have."""


class Provenance(Mapping[str, Source]):
    """The source of every field that a layer set, by dotted path.

    Example:
        >>> provenance = Provenance(Source("factory", "translation/local"))
        >>> here = Source("file", "a.yaml:2")
        >>> provenance.record({"trainer": {"train_steps": 5}}, lambda path: here)
        >>> str(provenance.source("trainer.train_steps"))
        'a.yaml:2'
        >>> str(provenance.source("trainer.steps_per_loop"))
        'factory translation/local'
    """

    def __init__(self, default: Source) -> None:
        self._default = default
        self._sources: dict[str, Source] = {}

    def __getitem__(self, path: str) -> Source:
        return self._sources[path]

    def __iter__(self) -> Iterator[str]:
        return iter(self._sources)

    def __len__(self) -> int:
        return len(self._sources)

    def record(self, params: Mapping[str, Any], source_of: Callable[[str], Source]) -> None:
        """Notes that a layer set the values in `params`, found at `source_of(dotted path)`.

        What earlier layers set inside of a value that this one replaces is forgotten. An empty
        mapping replaces nothing, but may turn None into a sub-config.
        """
        for path, value in flatten(params).items():
            if not isinstance(value, Mapping):
                inside = (f"{path}.", f"{path}[")
                for former in [name for name in self._sources if name.startswith(inside)]:
                    del self._sources[former]
            self._sources[path] = source_of(path)

    def source(self, path: str) -> Source:
        """Returns the source of a field: its own, or that of what contains it.

        Args:
            path: Dotted, with the elements of lists in brackets: `a.b[0].c`.
        """
        while path:
            if path in self._sources:
                return self._sources[path]
            path = path[: max(path.rfind("."), path.rfind("["), 0)]
        return self._default


def flatten(params: Mapping[str, Any], separator: str = ".", *, prefix: str = "") -> dict[str, Any]:
    """Returns the leaves of nested mappings by their paths; an empty mapping is a leaf.

    Args:
        params: Nested mappings.
        separator: What stands between the names of a path.
        prefix: Start of all paths.

    Example:
        >>> flatten({"a": {"b": 1}, "c": [2]})
        {'a.b': 1, 'c': [2]}
    """
    leaves: dict[str, Any] = {}
    for name, value in params.items():
        path = f"{prefix}{name}"
        if isinstance(value, Mapping) and value:
            leaves |= flatten(value, separator, prefix=f"{path}{separator}")
        else:
            leaves[path] = value
    return leaves


def diff_dicts(first: Mapping[str, Any], second: Mapping[str, Any]) -> list[tuple[str, Any, Any]]:
    """Returns the leaves in which two nested mappings differ: path, value in `first`, in `second`.

    A list and a tuple of the same values do not differ, nor do two NaNs; 1 and 1.0 do not, but 1
    and True do.

    Example:
        >>> diff_dicts({"a": {"b": 1}, "c": 2}, {"a": {"b": 3}, "c": 2, "d": 4})
        [('a.b', 1, 3), ('d', (absent), 4)]
    """
    left, right = flatten(first), flatten(second)
    return [
        (path, left.get(path, MISSING), right.get(path, MISSING))
        for path in {**left, **right}
        if not _is_same(left.get(path, MISSING), right.get(path, MISSING))
    ]


def _is_same(left: Any, right: Any) -> bool:
    if isinstance(left, list | tuple) and isinstance(right, list | tuple):
        return len(left) == len(right) and all(map(_is_same, left, right))
    if isinstance(left, Mapping) and isinstance(right, Mapping):
        return left.keys() == right.keys() and all(
            _is_same(left[name], right[name]) for name in left
        )
    if isinstance(left, bool) != isinstance(right, bool):
        return False
    is_number = isinstance(left, float) and isinstance(right, float)
    is_nan = is_number and math.isnan(left) and math.isnan(right)
    return is_nan or bool(left == right)
