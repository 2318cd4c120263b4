"""Limits on size and depth of YAML, checked before anything is built of it.

Readers of trees call themselves for every level, in C as in Python, so that a text of nothing but
brackets could end the process; and a few aliases of aliases stand for more values than fit into
memory. The events of a text come one by one, whatever it is, and are counted here.
"""

import dataclasses
from collections.abc import Iterable
from typing import Any, Final

import yaml

MAX_CHARACTERS: Final = 1_000_000
"""Longest text."""

MAX_DEPTH: Final = 40
"""Most lists and mappings inside of one another."""

MAX_VALUES: Final = 100_000
"""Most values, with each alias counted as what it stands for."""

MAX_EXPANDED_CHARACTERS: Final = 10 * MAX_CHARACTERS
"""Most characters of all values, with each alias counted as what it stands for."""

MAX_NAME_LENGTH: Final = 200
"""Longest name of a value."""

_TOO_DEEP: Final = f"more than {MAX_DEPTH} lists and mappings are inside of one another"
_READERS_LIMIT: Final = "maximum nesting depth"
"""Message of newer readers for more levels than they take, which are far more than ours."""


@dataclasses.dataclass
class _Size:
    """Size of a value, with its aliases written out."""

    anchor: str | None = None
    values: int = 1
    characters: int = 0
    depth: int = 0

    def add(self, part: "_Size") -> None:
        self.values += part.values
        self.characters += part.characters
        self.depth = max(self.depth, part.depth + 1)


def find_excess(text: str, loader_cls: Any) -> tuple[Any, str] | None:
    """Returns where YAML grows too large or too deep, and what is wrong; None if it does not.

    Args:
        text: Any text of at most `MAX_CHARACTERS`.
        loader_cls: The loader whose events are counted.

    Raises:
        yaml.YAMLError: If it is not YAML.
    """
    try:
        return _count(yaml.parse(text, Loader=loader_cls))
    except yaml.MarkedYAMLError as error:
        if _READERS_LIMIT not in str(error.problem):
            raise
        return error.problem_mark, _TOO_DEEP


def _count(events: Iterable[Any]) -> tuple[Any, str] | None:
    open_parts = [_Size()]
    anchors: dict[str | None, _Size] = {}
    for event in events:
        part = None
        if isinstance(event, yaml.CollectionStartEvent):
            open_parts.append(_Size(event.anchor))
        elif isinstance(event, yaml.CollectionEndEvent):
            part = open_parts.pop()
        elif isinstance(event, yaml.ScalarEvent):
            part = _Size(event.anchor, characters=len(event.value))
        elif isinstance(event, yaml.AliasEvent):
            # An alias of nothing, or of what contains it, is refused where values are built.
            part = anchors.get(str(event.anchor), _Size())
        if part is not None:
            open_parts[-1].add(part)
            if part.anchor is not None:
                anchors[part.anchor] = part
        problem = _find_problem(open_parts)
        if problem is not None:
            return event.start_mark, problem
    return None


def _find_problem(open_parts: list[_Size]) -> str | None:
    top = open_parts[-1]
    if len(open_parts) - 1 + top.depth > MAX_DEPTH + 1:
        return _TOO_DEEP
    if top.values > MAX_VALUES:
        return f"there are more than {MAX_VALUES:,} values, with aliases written out"
    if top.characters > MAX_EXPANDED_CHARACTERS:
        return (
            f"there are more than {MAX_EXPANDED_CHARACTERS:,} characters, with aliases written out"
        )
    return None
