"""Fuzzed configs: random mutations of good ones.

A mutation changes a nest of mappings and lists, or the text of a YAML file, at a place and in a way
that a random number chooses. The same seed gives the same mutations.
"""

import copy
import math
import random as random_lib
from typing import Any, Final

from quintain import errors

Path = tuple[Any, ...]

SCALARS: Final = (
    None, True, False, 0, 1, -1, 2, 0.5, -0.5, 1e-320, 1e308, -1e308, 10**6, 2**31, 2**63 - 1,
    2**63, -(2**63) - 1, 10**30, 10**5000, math.nan, math.inf, -math.inf, "", "x", "1", "1e3", "no",
    "nan", "0o17", "2020-01-01", "a.b", "a b", "a=b", "/", "..", "~", "*", "\0", "a\nb", "\ud800",
    "ü" * 300, "x" * 5000,
)  # fmt: skip
"""Values that are no lists and mappings."""

COLLECTIONS: Final[tuple[Any, ...]] = (
    [], {}, [None], [[]], [{}], [1, "a", None], {"a": 1}, {"a": {}}, {"type": None}, {"type": []},
    {"type": "int"}, {"type": "log", "minval": 300, "maxval": 309}, {"name": None}, {1: 2},
    {None: 1}, {True: {}}, {"": 1}, {"a.b": 1}, {"_a": 1}, {"\0": 1}, {"batches": None},
    {"batches": -1}, {"epochs": 10**30}, {"when": 1}, list(range(500)),
    {"x" * 5000: 1},
)  # fmt: skip
"""Lists and mappings."""

_NAMES: Final = ("", "x", "type", "name", "a.b", "\0", 1, None, True, "_x", "ü" * 300)
_DEPTHS: Final = (10, 60, 150)

TEXTS: Final = (
    "[" * 30_000, "{a: " * 30_000, "- " * 2_000, "? " * 500, "&a [*a]", "*x", "&a {<<: *a}",
    "!!python/object/apply:os.getcwd []", "!!set {a}", "!!binary aGVsbG8=", "!!int x",
    "!!float x", "!!null 1", "!!omap [a: 1]", "!x y", "2020-01-01", "12:30:45", "0o17", "017",
    "0x_1", "1_000", "+.inf", ".NaN", "1e400", "-1e400", "9" * 5000, "0x" + "f" * 5000, "yes",
    "~", "''", '"\\0"', '"\\ud800"', '"\\x07"', "'", '"', "|", ">", "@", "`", "%", "\t", "\x07",
    "{a: 1, a: 2}", "{<<: {a: 1}}", "{? [a] : b}", "[1, 2", "}", "---", "...", "a: b: c", "# x",
    "&a [&b [x, x, x, x], *b, *b, *b, *b]", "\u2028", "\ufeff",
)  # fmt: skip
"""Pieces of YAML, most of them bad."""


def list_places(content: Any, path: Path = ()) -> list[Path]:
    """Returns the paths of everything inside of lists and mappings."""
    if isinstance(content, dict):
        parts = list(content.items())
    else:
        parts = list(enumerate(content)) if isinstance(content, list) else []
    return [
        found
        for name, part in parts
        for found in ((*path, name), *list_places(part, (*path, name)))
    ]


def mutate(content: dict[str, Any], random: random_lib.Random) -> dict[str, Any]:
    """Returns a copy with one to three changes."""
    content = copy.deepcopy(content)
    for _ in range(random.choice((1, 1, 1, 2, 3))):
        places = list_places(content)
        if places:
            _change(content, random.choice(places), places, random)
    return content


def mutate_text(text: str, random: random_lib.Random) -> str:
    """Returns YAML text with one change."""
    lines = text.splitlines(keepends=True)
    number = random.randrange(len(lines))
    line = lines[number]
    match random.randrange(6):
        case 0:
            name, colon, _ = line.partition(":")
            lines[number] = f"{name}{colon} {random.choice(TEXTS)}\n"
        case 1:
            lines[number] = f"{random.choice(TEXTS)}: 1\n"
        case 2:
            lines.insert(random.randrange(len(lines) + 1), line)
        case 3:
            lines[number] = " " * random.randrange(4) + line
        case 4:
            at = random.randrange(len(line) + 1)
            lines[number] = line[:at] + random.choice("[]{}:,#&*!|>'\"%@`-? \n\t\0") + line[at:]
        case _:
            del lines[number]
    return "".join(lines)


def make_value(random: random_lib.Random) -> Any:
    """Returns a value that is wrong almost anywhere."""
    kind = random.randrange(10)
    if kind == 0:
        value: Any = 1
        for _ in range(random.choice(_DEPTHS)):
            value = [value] if random.random() < 0.5 else {"a": value}
        return value
    return copy.deepcopy(random.choice(SCALARS if kind < 7 else COLLECTIONS))


def _change(content: Any, path: Path, places: list[Path], random: random_lib.Random) -> None:
    parent = content
    for name in path[:-1]:
        parent = parent[name]
    name = path[-1]
    match random.randrange(8):
        case 0:
            del parent[name]
        case 1:
            _put(parent, random.choice(_NAMES), parent[name])
        case 2:
            parent[name] = random.choice(
                ([parent[name]], {"a": parent[name]}, errors.show(parent[name]))
            )
        case 3:
            other = content
            for part in random.choice(places):
                other = other[part]
            parent[name] = copy.deepcopy(other)
        case 4:
            _put(parent, random.choice(("x", "typo", "minval", "count")), make_value(random))
        case 5 if isinstance(parent[name], int | float):
            number = parent[name]
            parent[name] = random.choice((-number, number * 10**9, number + 0.5, number * 1000))
        case _:
            parent[name] = make_value(random)


def _put(parent: Any, name: Any, value: Any) -> None:
    if isinstance(parent, list):
        parent.append(value)
    else:
        parent[name] = copy.deepcopy(value)
