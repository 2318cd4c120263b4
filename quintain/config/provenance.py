"""Which layer set each field of a config, and how two configs differ."""

import dataclasses
import enum
from collections.abc import Callable, Mapping
from typing import Any, Final


@dataclasses.dataclass(frozen=True)
class Source:
    """Where a value came from."""

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


class Provenance:
    """The source of every field, by dotted path.

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
        """Stores the source of what no layer set."""
        self._default = default
        self._sources: dict[str, Source] = {}

    def record(self, params: Mapping[str, Any], locate: Callable[[str], Source]) -> None:
        """Notes that a layer set the values in `params`, found at `locate(dotted path)`."""
        for path in flatten(params):
            self._sources[path] = locate(path)

    def source(self, path: str) -> Source:
        """Returns the source of a field: its own, or that of what contains it."""
        while path:
            if path in self._sources:
                return self._sources[path]
            path = path.rpartition(".")[0]
        return self._default


def flatten(params: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Returns the leaves of nested mappings by their dotted paths.

    Example:
        >>> flatten({"a": {"b": 1}, "c": [2]})
        {'a.b': 1, 'c': [2]}
    """
    leaves: dict[str, Any] = {}
    for name, value in params.items():
        path = f"{prefix}{name}"
        if isinstance(value, Mapping) and value:
            leaves.update(flatten(value, f"{path}."))
        else:
            leaves[path] = value
    return leaves


def diff_dicts(first: Mapping[str, Any], second: Mapping[str, Any]) -> list[tuple[str, Any, Any]]:
    """Returns the leaves in which two nested mappings differ.

    Example:
        >>> diff_dicts({"a": {"b": 1}, "c": 2}, {"a": {"b": 3}, "c": 2, "d": 4})
        [('a.b', 1, 3), ('d', (absent), 4)]
    """
    left, right = flatten(first), flatten(second)
    return [
        (path, left.get(path, MISSING), right.get(path, MISSING))
        for path in {**left, **right}
        if _to_list(left.get(path, MISSING)) != _to_list(right.get(path, MISSING))
    ]


def _to_list(value: Any) -> Any:
    return [_to_list(part) for part in value] if isinstance(value, list | tuple) else value
